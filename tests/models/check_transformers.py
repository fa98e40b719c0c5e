"""Trains tiny decoders of transformers in Python and in memtune from their folders, and compares all bits.

    python check_transformers.py --memtune build/release/bin/memtune [--only qwen] [--jobs 2]

Each case is a configuration of one family with random weights, written by save_pretrained. It runs in float32 and
bfloat16 on two batches with some labels ignored; further cases of a family run on one batch. Without MEMTUNE_NIGHT or
--only, only the first case of every fourth family runs, in one dtype on one batch. The loss and every
gradient of `none` must equal Python's bit for bit, under the same names, also under `checkpoint:full`. Allocated bytes
of `none` at the start of backward and at the peak must equal those of Python's allocator within 64 bytes, because
Python keeps some numbers as tensors. Prints a line for each run and `N passed, N failed`. Exit code 1 on a failure, 2
if a family that memtune knows has no case. Needs torch, transformers and safetensors.
"""

import argparse
import concurrent.futures
import gc
import itertools
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from safetensors.torch import save_file

from reference_file import read_reference

TINY = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, pad_token_id=5, initializer_range=0.1)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
PADLESS = {"pad_token_id": None}
GEMMA = {"head_dim": 16, "num_key_value_heads": 1}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
           "shared_expert_intermediate_size": 40}
GPT2 = {"n_positions": 64, "n_inner": None, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
OLDER = {"vocab_size": 997}  # the peak is at the loss: eager attention in Python holds more in its frames

# Name: model_type, and changes to TINY.
SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
LATENT = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 12, "v_head_dim": 10,
          "num_key_value_heads": 4}
GROUPED_EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 2,
                   "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5}
DELTA_NET = {"head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
             "linear_value_head_dim": 12, "linear_conv_kernel_dim": 4}
GEMMA4 = {"head_dim": 8, "global_head_dim": 16, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 97,
          "sliding_window": 64}
GEMMA3N = {"head_dim": 8, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 97, "laurel_rank": 6,
           "sliding_window": 64}
CASES = {
    "llama": ("llama", {}),
    "llama-ungrouped": ("llama", {"num_key_value_heads": 4, **PADLESS}),
    "llama-biased": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-wide-heads": ("llama", {"head_dim": 16, "rms_norm_eps": 1e-3}),
    "llama-theta": ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "llama-llama3": ("llama", {"rope_parameters": LLAMA3}),
    "llama-linear": ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}),
    "llama-gelu": ("llama", {"hidden_act": "gelu"}),
    "mistral": ("mistral", {"sliding_window": 64}),
    "qwen2": ("qwen2", {}),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True, "use_sliding_window": True, "sliding_window": 64,
                             "max_window_layers": 1}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3-biased": ("qwen3", {"head_dim": 8, "attention_bias": True}),
    "gemma": ("gemma", GEMMA),
    "gemma2": ("gemma2", {**GEMMA, "query_pre_attn_scalar": 24, "sliding_window": 64}),
    "gemma2-old": ("gemma2", {**GEMMA, "query_pre_attn_scalar": 24, "sliding_window": 16}),
    "gemma2-uncapped": ("gemma2", {**GEMMA, "final_logit_softcapping": None, "tie_word_embeddings": False}),
    "phi3": ("phi3", {}),
    "phi3-partial": ("phi3", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                                  "partial_rotary_factor": 0.5}}),
    "granite": ("granite", {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.0625,
                            "logits_scaling": 8.0}),
    "granite-biased": ("granite", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True,
                                   "residual_multiplier": 0.5}),
    "olmo2": ("olmo2", {}),
    "olmo2-biased": ("olmo2", {"attention_bias": True}),
    "smollm3": ("smollm3", {"num_hidden_layers": 4}),
    "gemma3": ("gemma3_text", {**GEMMA, "num_hidden_layers": 3, "sliding_window": 64,
                               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "gemma3-scaled": ("gemma3_text", {**GEMMA, "num_hidden_layers": 6, "sliding_window": 64,
                                      "final_logit_softcapping": 20.0, "query_pre_attn_scalar": 24, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}}),
    "mixtral": ("mixtral", {"num_local_experts": 6, "num_experts_per_tok": 2}),
    "mixtral-one": ("mixtral", {"num_local_experts": 40, "num_experts_per_tok": 1, "sliding_window": 64}),
    "qwen2-moe": ("qwen2_moe", EXPERTS),
    "qwen2-moe-some": ("qwen2_moe", {**EXPERTS, "num_hidden_layers": 4, "decoder_sparse_step": 2,
                                     "mlp_only_layers": [3], "norm_topk_prob": True, "qkv_bias": False}),
    "qwen3-moe": ("qwen3_moe", {**EXPERTS, "head_dim": 16, "norm_topk_prob": True}),
    "qwen3-moe-plain": ("qwen3_moe", EXPERTS),
    "glm4": ("glm4", {"head_dim": 16}),
    "glm4-unbiased": ("glm4", {"head_dim": 8, "attention_bias": False, "tie_word_embeddings": True}),
    "cohere2": ("cohere2", {"num_hidden_layers": 4, "sliding_window": 64}),
    "cohere2-untied": ("cohere2", {"sliding_window": 64, "tie_word_embeddings": False, "attention_bias": True,
                                   "logit_scale": 0.3, "layer_types": ["full_attention", "sliding_attention"]}),
    "stablelm": ("stablelm", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                                  "partial_rotary_factor": 0.25}}),
    "stablelm-parallel": ("stablelm", {"use_parallel_residual": True, "use_qkv_bias": True, "qk_layernorm": True,
                                       "partial_rotary_factor": 0.5}),
    "starcoder2": ("starcoder2", {}),
    "starcoder2-unbiased": ("starcoder2", {"use_bias": False, "tie_word_embeddings": False, "sliding_window": 64}),
    "gpt-neox": ("gpt_neox", {}),
    "gpt-neox-serial": ("gpt_neox", {"use_parallel_residual": False, "attention_bias": False, "rotary_pct": 1.0,
                                     "tie_word_embeddings": True, "hidden_act": "relu"}),
    "gpt2": ("gpt2", GPT2),
    "gpt2-plain": ("gpt2", {**GPT2, "n_inner": 48, "activation_function": "gelu", "scale_attn_weights": False,
                            "tie_word_embeddings": False}),
    "gpt2-dropout": ("gpt2", {"n_positions": 64}),
    "gpt-neox-dropout": ("gpt_neox", {"hidden_dropout": 0.1, "attention_dropout": 0.1}),
    "phi3-dropout": ("phi3", {"resid_pdrop": 0.2}),
    "starcoder2-dropout": ("starcoder2", {"residual_dropout": 0.1, "embedding_dropout": 0.2}),
    "stablelm-dropout": ("stablelm", {"hidden_dropout": 0.2}),
    "llama-dynamic": ("llama", {"max_position_embeddings": 64, "rope_parameters": {
        "rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}}),
    "qwen2-yarn": ("qwen2", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000000.0,
                                                 "original_max_position_embeddings": 32}}),
    "phi3-longrope": ("phi3", {"original_max_position_embeddings": 64, "max_position_embeddings": 256,
                               "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0,
                                                   "short_factor": [1.0, 1.2, 1.5, 2.0], "long_factor": [4.0] * 4}}),
    "ministral": ("ministral", {"head_dim": 16, "sliding_window": 64}),
    "ministral-mixed": ("ministral", {"head_dim": 8, "sliding_window": 64,
                                      "layer_types": ["full_attention", "sliding_attention"]}),
    "seed-oss": ("seed_oss", {"head_dim": 16, "attention_dropout": 0.0, "residual_dropout": 0.0}),
    "seed-oss-dropout": ("seed_oss", {"head_dim": 8, "attention_bias": False, "attention_out_bias": True,
                                      "mlp_bias": True}),
    "arcee": ("arcee", {}),
    "arcee-biased": ("arcee", {"attention_bias": True, "mlp_bias": True, "hidden_act": "silu"}),
    "hunyuan": ("hunyuan_v1_dense", {"head_dim": 8}),
    "hunyuan-alpha": ("hunyuan_v1_dense", {"head_dim": 16, "attention_bias": True, "rope_parameters": {
        "rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 10000.0}}),
    "ernie": ("ernie4_5", {"head_dim": 16}),
    "ernie-biased": ("ernie4_5", {"head_dim": 8, "use_bias": True, "tie_word_embeddings": False}),
    "nemotron": ("nemotron", {}),
    "nemotron-biased": ("nemotron", {"attention_bias": True, "mlp_bias": True, "head_dim": 16}),
    "phi": ("phi", {}),
    "phi-normed": ("phi", {"qk_layernorm": True, "num_key_value_heads": 4, **PADLESS}),
    "phi-dropout": ("phi", {"resid_pdrop": 0.1, "embd_pdrop": 0.1}),
    "olmo3": ("olmo3", {"num_hidden_layers": 4, "sliding_window": 64}),
    "olmo3-scaled": ("olmo3", {"sliding_window": 64, "attention_bias": True,
                               "layer_types": ["full_attention", "sliding_attention"], "rope_parameters": {
        "full_attention": {"rope_type": "yarn", "factor": 8.0, "rope_theta": 500000.0,
                           "original_max_position_embeddings": 32},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}}),
    "exaone4": ("exaone4", {"num_hidden_layers": 4, "sliding_window": 64}),
    "exaone4-whole": ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 2, "head_dim": 16}),
    "glm": ("glm", {"head_dim": 16}),
    "glm-unbiased": ("glm", {"head_dim": 8, "attention_bias": False, "tie_word_embeddings": True}),
    "cohere": ("cohere", {}),
    "cohere-normed": ("cohere", {"use_qk_norm": True, "attention_bias": True, "logit_scale": 0.3,
                                 "tie_word_embeddings": False}),
    "olmoe": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 24}),
    "olmoe-normed": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 3, "intermediate_size": 24,
                               "norm_topk_prob": True, "attention_bias": True}),
    "ministral3": ("ministral3", {"head_dim": 16, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 16,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.3}}),
    "ministral3-windowed": ("ministral3", {"head_dim": 8, "sliding_window": 64, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "original_max_position_embeddings": 7,
        "llama_4_scaling_beta": 0.1}}),
    "apertus": ("apertus", {}),
    "apertus-biased": ("apertus", {"attention_bias": True, "hidden_act": "silu", "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0}}),
    "helium": ("helium", {"head_dim": 8}),
    "helium-biased": ("helium", {"head_dim": 8, "attention_bias": True, "mlp_bias": True,
                                 "num_key_value_heads": 4}),
    "olmo": ("olmo", {}),
    "olmo-biased": ("olmo", {"attention_bias": True, "tie_word_embeddings": True}),
    "vaultgemma": ("vaultgemma", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 64,
                                  "attn_logit_softcapping": None}),
    "vaultgemma-capped": ("vaultgemma", {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 40,
                                         "attn_implementation": "eager"}),
    "flex-olmo": ("flex_olmo", {"num_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 24}),
    "flex-olmo-normed": ("flex_olmo", {"num_experts": 6, "num_experts_per_tok": 3, "intermediate_size": 24,
                                       "norm_topk_prob": True}),
    "llama4": ("llama4_text", {"num_hidden_layers": 4, "head_dim": 16, "intermediate_size_mlp": 40, "floor_scale": 7,
                               "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2}),
    "llama4-two": ("llama4_text", {"head_dim": 8, "intermediate_size_mlp": 40, "num_local_experts": 6,
                                   "num_experts_per_tok": 2, "moe_layers": [0], "no_rope_layers": [1, 0],
                                   "use_qk_norm": False, "attention_bias": True, "attn_temperature_tuning": False}),
    "persimmon": ("persimmon", {}),
    "persimmon-plain": ("persimmon", {"qk_layernorm": False, "hidden_dropout": 0.1, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}),
    "lfm2": ("lfm2", {"layer_types": ["conv", "full_attention"], "block_multiple_of": 8}),
    "lfm2-biased": ("lfm2", {"layer_types": ["full_attention", "conv"], "block_auto_adjust_ff_dim": False,
                             "conv_bias": True, "conv_L_cache": 4, "tie_word_embeddings": False}),
    "opt": ("opt", {"ffn_dim": 48, "dropout": 0.0, "max_position_embeddings": 64}),
    "opt-unbiased": ("opt", {"ffn_dim": 40, "dropout": 0.0, "max_position_embeddings": 64, "enable_bias": False,
                             "activation_function": "gelu", "tie_word_embeddings": False}),
    "gpt-oss": ("gpt_oss", {"head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 24,
                            "sliding_window": 20}),
    "gpt-oss-plain": ("gpt_oss", {"head_dim": 8, "num_local_experts": 6, "num_experts_per_tok": 1,
                                  "intermediate_size": 24, "attention_bias": False, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0}}),
    "granite-moe": ("granitemoe", {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 24,
                                   "embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.5,
                                   "attention_multiplier": 0.2}),
    "granite-moe-tied": ("granitemoe", {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size": 24,
                                        "tie_word_embeddings": True, "attention_bias": True}),
    "granite-moe-shared": ("granitemoeshared", {"num_local_experts": 6, "num_experts_per_tok": 2,
                                                "intermediate_size": 24, "shared_intermediate_size": 40,
                                                "residual_multiplier": 0.5}),
    "granite-moe-unshared": ("granitemoeshared", {"num_local_experts": 6, "num_experts_per_tok": 2,
                                                  "intermediate_size": 24, "shared_intermediate_size": 0}),
    "glm4-moe": ("glm4_moe", {"head_dim": 16, **GROUPED_EXPERTS}),
    "glm4-moe-normed": ("glm4_moe", {"head_dim": 8, **GROUPED_EXPERTS, "use_qk_norm": True, "attention_bias": True,
                                     "norm_topk_prob": False, "first_k_dense_replace": 0, "n_group": 1,
                                     "topk_group": 1}),
    "deepseek-v3": ("deepseek_v3", {**LATENT, **GROUPED_EXPERTS, "norm_topk_prob": True}),
    "deepseek-v3-direct": ("deepseek_v3", {**LATENT, **GROUPED_EXPERTS, "q_lora_rank": None, "attention_bias": True,
                                           "rope_interleave": False, "norm_topk_prob": False}),
    "deepseek-v3-yarn": ("deepseek_v3", {**LATENT, **GROUPED_EXPERTS, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32,
        "mscale": 0.7, "mscale_all_dim": 1.3}}),
    "deepseek-v2": ("deepseek_v2", {**LATENT, **GROUPED_EXPERTS, "topk_method": "group_limited_greedy"}),
    "deepseek-v2-greedy": ("deepseek_v2", {**LATENT, **GROUPED_EXPERTS, "topk_method": "greedy", "q_lora_rank": None,
                                           "n_group": None, "topk_group": None, "mlp_bias": True,
                                           "attention_bias": True, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32,
        "mscale": 0.7, "mscale_all_dim": 1.3}}),
    "dots1": ("dots1", {"head_dim": 16, **GROUPED_EXPERTS}),
    "dots1-windowed": ("dots1", {"head_dim": 8, **GROUPED_EXPERTS, "sliding_window": 64, "max_window_layers": 1,
                                 "norm_topk_prob": True}),
    "minimax-m2": ("minimax_m2", {"head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2,
                                  "intermediate_size": 24}),
    "minimax-m2-partial": ("minimax_m2", {"head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 3,
                                          "intermediate_size": 24, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}),
    "ernie-moe": ("ernie4_5_moe", {"head_dim": 16, "moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 24,
                                   "moe_num_shared_experts": 2, "moe_layer_start_index": 1}),
    "ernie-moe-unshared": ("ernie4_5_moe", {"head_dim": 8, "moe_num_experts": 6, "moe_k": 3, "use_bias": True,
                                            "moe_intermediate_size": 24, "moe_num_shared_experts": 0,
                                            "moe_layer_start_index": 0, "moe_layer_end_index": 0}),
    "hunyuan-moe": ("hunyuan_v1_moe", {"head_dim": 8, "num_experts": 6, "moe_topk": 2, "intermediate_size": 24}),
    "hunyuan-moe-biased": ("hunyuan_v1_moe", {"head_dim": 16, "num_experts": 4, "moe_topk": 1,
                                              "intermediate_size": 24, "attention_bias": True}),
    "qwen3.5": ("qwen3_5_text", {**DELTA_NET, "layer_types": ["linear_attention", "full_attention"]}),
    "qwen3.5-biased": ("qwen3_5_text", {**DELTA_NET, "linear_num_value_heads": 2, "attention_bias": True,
                                        "num_hidden_layers": 4, "tie_word_embeddings": True, "head_dim": 8}),
    "qwen3.5-moe": ("qwen3_5_moe_text", {**DELTA_NET, **EXPERTS,
                                         "layer_types": ["linear_attention", "full_attention"]}),
    "qwen3-next": ("qwen3_next", {**DELTA_NET, **EXPERTS, "layer_types": ["linear_attention", "full_attention"]}),
    "qwen3-next-some": ("qwen3_next", {**DELTA_NET, **EXPERTS, "num_hidden_layers": 4, "mlp_only_layers": [2],
                                       "norm_topk_prob": False, "linear_num_value_heads": 2}),
    "gemma4": ("gemma4_text", {**GEMMA4, "num_kv_shared_layers": 2, "num_hidden_layers": 4, "layer_types": [
        "sliding_attention", "full_attention"] * 2}),
    "gemma4-wide": ("gemma4_text", {**GEMMA4, "num_kv_shared_layers": 2, "num_hidden_layers": 4, "layer_types": [
        "sliding_attention", "full_attention"] * 2, "use_double_wide_mlp": True, "attention_k_eq_v": True,
                                    "num_global_key_value_heads": 1, "final_logit_softcapping": 20.0,
                                    "attn_implementation": "eager"}),
    "gemma4-moe": ("gemma4_text", {**GEMMA4, "hidden_size_per_layer_input": 0, "enable_moe_block": True,
                                   "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 24}),
    "gemma4-plain": ("gemma4_text", {**GEMMA4, "hidden_size_per_layer_input": 0, "global_head_dim": 320,
                                     "sliding_window": 40, "attention_bias": True}),
    "gemma3n": ("gemma3n_text", {**GEMMA3N, "num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": [
        "sliding_attention", "full_attention"] * 2, "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0]}),
    "gemma3n-second": ("gemma3n_text", {**GEMMA3N, "num_kv_shared_layers": 0, "intermediate_size": [40, 48],
                                        "altup_active_idx": 1, "altup_coef_clip": 0.1,
                                        "altup_num_inputs": 3, "attention_bias": True, "layer_types": [
        "full_attention", "sliding_attention"], "tie_word_embeddings": False}),
    "mamba2": ("mamba2", {"num_heads": 8, "head_dim": 8, "state_size": 6, "n_groups": 2, "chunk_size": 16}),
    "mamba2-biased": ("mamba2", {"num_heads": 4, "head_dim": 24, "state_size": 8, "n_groups": 4, "chunk_size": 64,
                                 "expand": 3, "use_bias": True, "use_conv_bias": False, "residual_in_fp32": False,
                                 "tie_word_embeddings": True, "time_step_limit": (0.1, 0.6)}),
    "gpt-bigcode": ("gpt_bigcode", GPT2),
    "gpt-bigcode-heads": ("gpt_bigcode", {"n_positions": 64, "multi_query": False, "n_inner": 40,
                                          "tie_word_embeddings": False, "scale_attn_weights": False}),
    "falcon": ("falcon", {}),
    "falcon-new": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True,
                              "tie_word_embeddings": False}),
    "falcon-one-norm": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 4, "num_ln_in_parallel_attn": 1,
                                   "ffn_hidden_size": 48, "hidden_dropout": 0.1}),
    "falcon-serial": ("falcon", {"parallel_attn": False, "multi_query": False, "bias": True,
                                 "attention_dropout": 0.2}),
    "gptj": ("gptj", {**GPT2, **OLDER, "rotary_dim": 4}),
    "gptj-whole": ("gptj", {**GPT2, **OLDER, "rotary_dim": 8, "tie_word_embeddings": True, "resid_pdrop": 0.1}),
    "codegen": ("codegen", {**GPT2, **OLDER, "rotary_dim": 4, "num_attention_heads": 8}),
    "codegen-whole": ("codegen", {**GPT2, **OLDER, "rotary_dim": 8, "n_inner": 48, "attn_pdrop": 0.1}),
    "gpt-neo": ("gpt_neo", {**OLDER, "max_position_embeddings": 64, "attention_types": [[["global", "local"], 1]],
                            "window_size": 20}),
    "gpt-neo-local": ("gpt_neo", {**OLDER, "max_position_embeddings": 64, "attention_types": [[["local"], 2]],
                                  "window_size": 16, "intermediate_size": None, "embed_dropout": 0.1,
                                  "attention_dropout": 0.1, "tie_word_embeddings": False}),
    "mpt": ("mpt", {**OLDER, "max_seq_len": 64}),
    "mpt-clipped": ("mpt", {**OLDER, "max_seq_len": 80, "num_attention_heads": 6, "hidden_size": 36,
                            "tie_word_embeddings": False, "attn_config": {"clip_qkv": 0.3, "softmax_scale": 0.2}}),
    "bloom": ("bloom", OLDER),
    "bloom-dropout": ("bloom", {**OLDER, "num_attention_heads": 6, "hidden_size": 36, "hidden_dropout": 0.1,
                                "attention_dropout": 0.1, "tie_word_embeddings": False}),
    "xglm": ("xglm", {**OLDER, "ffn_dim": 48, "dropout": 0.0, "attention_dropout": 0.0, "max_position_embeddings": 64}),
    "xglm-dropout": ("xglm", {**OLDER, "ffn_dim": 40, "scale_embedding": False, "max_position_embeddings": 64,
                              "activation_function": "relu", "tie_word_embeddings": False}),
    "diffllama": ("diffllama", {}),
    "diffllama-biased": ("diffllama", {"attention_bias": True, "num_key_value_heads": 4, "head_dim": 16}),
    "phimoe": ("phimoe", {**OLDER, "num_local_experts": 6, "intermediate_size": 24, "sliding_window": 64}),
    "phimoe-biased": ("phimoe", {**OLDER, "num_local_experts": 4, "intermediate_size": 24, "attention_bias": True,
                                 "lm_head_bias": True, "router_jitter_noise": 0.1,
                                 "original_max_position_embeddings": 64, "max_position_embeddings": 256,
                                 "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0,
                                                     "short_factor": [1.0, 1.2, 1.5, 2.0], "long_factor": [4.0] * 4,
                                                     "short_mscale": 1.1, "long_mscale": 1.2,
                                                     "original_max_position_embeddings": 64}}),
    "qwen2-vl": ("qwen2_vl_text", {"rope_parameters": SECTIONS}),
    "qwen2-vl-windowed": ("qwen2_vl_text", {"rope_parameters": SECTIONS, "use_sliding_window": True,
                                            "sliding_window": 20, "max_window_layers": 1}),
    "qwen2.5-vl": ("qwen2_5_vl_text", {"rope_parameters": SECTIONS}),
    "qwen2.5-vl-tied": ("qwen2_5_vl_text", {"rope_parameters": SECTIONS, "tie_word_embeddings": True}),
    "qwen3-vl": ("qwen3_vl_text", {"head_dim": 16, "rope_parameters": {**SECTIONS, "mrope_section": [4, 2, 2]}}),
    "qwen3-vl-biased": ("qwen3_vl_text", {"head_dim": 8, "rope_parameters": SECTIONS, "attention_bias": True}),
    "paddleocr-vl": ("paddleocr_vl_text", {"head_dim": 16,
                                           "rope_parameters": {**SECTIONS, "mrope_section": [4, 2, 2]}}),
    "paddleocr-vl-biased": ("paddleocr_vl_text", {"head_dim": 8, "rope_parameters": SECTIONS, "use_bias": True,
                                                  "tie_word_embeddings": False}),
    "glm4v": ("glm4v_text", {"rope_parameters": {**SECTIONS, "partial_rotary_factor": 0.5,
                                                 "mrope_section": [1, 1, 0]}}),
    "glm4v-whole": ("glm4v_text", {"rope_parameters": SECTIONS}),
    "mllama": ("mllama_text_model", {"num_hidden_layers": 3, "cross_attention_layers": [1]}),
    "mllama-llama3": ("mllama_text_model", {"rope_parameters": LLAMA3, "cross_attention_layers": [0]}),
    "smollm3-untied": ("smollm3", {"tie_word_embeddings": False, "attention_bias": True, "no_rope_layers": [0, 1]}),
}
# Models of images and text, of which the text is trained; the family is that of the text model.
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
WHOLE = {"gemma3-whole": ("gemma3_text", "gemma3", {**GEMMA, "query_pre_attn_scalar": 16, "sliding_window": 64}),
         "mistral3-whole": ("mistral", "mistral3", {"head_dim": 8, "sliding_window": None}),
         "llava-whole": ("llama", "llava", {}), "smolvlm-whole": ("llama", "smolvlm", {}),
         "gemma3n-whole": ("gemma3n_text", "gemma3n", {**GEMMA3N, "num_kv_shared_layers": 0}),
         "gemma4-whole": ("gemma4_text", "gemma4", GEMMA4),
         "qwen3.5-whole": ("qwen3_5_text", "qwen3_5", {**DELTA_NET, "num_hidden_layers": 4}),
         "llama4-whole": ("llama4_text", "llama4", {"head_dim": 8, "intermediate_size_mlp": 40, "num_local_experts": 4})}
# Text models without a class that gives logits: the whole model is trained on text, without its vision_config's part.
OF_IMAGES = {"qwen2_vl_text": "qwen2_vl", "qwen2_5_vl_text": "qwen2_5_vl", "qwen3_vl_text": "qwen3_vl",
             "paddleocr_vl_text": "paddleocr_vl", "glm4v_text": "glm4v", "mllama_text_model": "mllama"}
TOKENS = dict(image_token_id=90, video_token_id=91, vision_start_token_id=88, vision_end_token_id=89,
              image_start_token_id=88, image_end_token_id=89, video_start_token_id=86, video_end_token_id=87)
CASES.update({name: (family, changes) for name, (family, _, changes) in WHOLE.items()})
# Fields that older files lack, because transformers' config has defaults.
WITHOUT = {"gemma2-old": ("layer_types",)}
SHARDED = {"llama", "gemma2"}  # weights in several files
AUTOCAST = {"mamba2", "gemma3n", "gemma4", "gemma4-moe", "qwen3.5", "qwen3-next", "gpt-oss", "granite-moe", "deepseek-v3", "ernie-moe", "hunyuan-moe", "helium", "olmo", "qwen3", "olmo2", "nemotron", "cohere-normed", "gemma3", "cohere2"}  # run under autocast too, in bfloat16
AUTOCAST |= {"falcon", "gptj", "codegen", "bloom", "diffllama", "phimoe"}
SHAPES = ((4, 32), (3, 47))
LONG = {"qwen3.5": ((2, 150),), "qwen3-next": ((1, 128),)}  # more shapes, of several chunks
DTYPES = (torch.float32, torch.bfloat16)
NIGHT = "MEMTUNE_NIGHT" in os.environ
ONE_AT_A_TIME = threading.Lock()  # from_pretrained sets the default dtype of the whole process


class Failure(Exception):
    """A difference from Python."""


def write_model(folder: str, name: str, dtype: torch.dtype, sizes=None):
    family, changes = CASES[name]
    settings = {**TINY, **changes, **(sizes or {})}
    torch.manual_seed(len(name))
    if family in OF_IMAGES:
        tied = settings.get("tie_word_embeddings", False)
        config = transformers.AutoConfig.for_model(OF_IMAGES[family], text_config=settings, vision_config=VISION,
                                                   tie_word_embeddings=tied, **TOKENS)
        model = transformers.AutoModelForImageTextToText.from_config(config)
    else:
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(family, **settings))
    with torch.no_grad():  # also parameters that are initialised to ones or zeros
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    size = {"max_shard_size": "20KB"} if name in SHARDED else {}
    model.to(dtype).save_pretrained(folder, **size)
    if size and not os.path.exists(os.path.join(folder, "model.safetensors.index.json")):
        raise Failure("the weights were not sharded")
    with open(os.path.join(folder, "config.json")) as file:
        fields = {field: value for field, value in json.load(file).items() if field not in WITHOUT.get(name, ())}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(fields, file)


def write_whole(folder: str, name: str):
    """Puts the folder's text model into one of images and text."""
    family, kind, _ = WHOLE[name]
    text = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    config = transformers.AutoConfig.for_model(kind, text_config=text.config, vision_config=VISION,
                                               tie_word_embeddings=text.config.tie_word_embeddings)
    model = transformers.AutoModelForImageTextToText.from_config(config).to(text.dtype)
    outer = getattr(model, "model", model)
    inner = next(part for name, part in outer.named_children() if name in ("language_model", "text_model"))
    if outer is model:  # it holds a whole language model
        inner.load_state_dict(text.state_dict())
    else:
        inner.load_state_dict(text.model.state_dict())
        model.lm_head.load_state_dict(text.lm_head.state_dict())
    whole = os.path.join(folder, "whole")
    model.save_pretrained(whole)
    return whole


def write_batch(path: str, shape):
    generator = torch.Generator().manual_seed(sum(shape))
    ids = torch.randint(0, TINY["vocab_size"], shape, generator=generator)
    labels = torch.where(torch.rand(shape, generator=generator) < 0.2, -100, ids)
    batch = {"input_ids": ids, "labels": labels}
    save_file(batch, path)
    return batch


def size(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def held_by(profiler):
    """Growth of the CPU's allocated bytes since the start: at the start of backward, and at most."""
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    began = next(event.start_ns() for event in events if event.name() == "backward")
    changes = [event for event in events if event.name() == "[memory]"]
    sums = list(itertools.accumulate(event.nbytes() for event in changes))
    return max((event.start_ns(), held) for event, held in zip(changes, sums) if event.start_ns() < began)[1], max(sums)


def load_in_python(folder: str):
    """With weights as aligned as memtune's: the products of MKL follow the alignment, which a mapped file has not."""
    if transformers.AutoConfig.from_pretrained(folder).model_type in OF_IMAGES.values():
        model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype="auto").train()
        for name in ("visual", "vision_model", "multi_modal_projector", "projector"):
            if hasattr(model.model, name):
                setattr(model.model, name, None)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").train()
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model


def gradients_of(model):
    """Without parameters that only choose experts."""
    return {name.replace("model.language_model.", "model."): parameter.grad
            for name, parameter in model.named_parameters() if parameter.grad is not None}


def autocast_in_python(folder: str, batch):
    """Returns the loss and the gradients of a step under autocast."""
    model = load_in_python(folder)
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**batch, use_cache=False).loss
    loss.backward()
    return loss.item(), gradients_of(model)


def train_in_python(folder: str, batch):
    """Returns the loss, the gradients, and the bytes of all tensors at the start of backward and at the peak."""
    model = load_in_python(folder)
    with torch.no_grad():
        model(**batch, use_cache=False)  # a rotary embedding may free its initial frequencies
    return measure_step(model, {**batch, "use_cache": False})


def measure_step(model, inputs):
    gc.collect()  # garbage collected later would count for this step
    gc.disable()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        torch.manual_seed(0)
        loss = model(**inputs).loss
        with torch.profiler.record_function("backward"):
            loss.backward()
    gc.enable()
    # transformers keeps the frequencies of the rotary embedding twice.
    buffers = [buffer for name, buffer in model.named_buffers() if "original" not in name]
    before = size(model.parameters()) + size(buffers) + size(filter(torch.is_tensor, inputs.values()))
    return loss.item(), gradients_of(model), [held + before for held in held_by(profiler)]


def train_by_memtune(options, model: str, inputs: str, run: str, strategies=("none", "checkpoint:full"), more=()):
    command = [options.memtune, "sweep", "--model", model, "--inputs", inputs, "--device", "cpu", "--steps", "1",
               "--warmup", "0", "--rounds", "1", "--seed", "0", "--optimizer", "sgd", "--json", "-", "--out", run, *more]
    for strategy in strategies:
        command += ["--strategy", strategy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"))
    if done.returncode != 0:
        raise Failure(f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def live_by_memtune(options, run: str, strategy: str = "none") -> int:
    """Allocated bytes at the start of backward in the first traced step."""
    trace = os.path.join(run, "trace.json")
    subprocess.run([options.memtune, "report", run, "--format", "perfetto", "--trial", strategy, "--output", trace],
                   check=True, capture_output=True)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    began = min(event["ts"] for event in events if event["name"] == "backward")
    before = [event for event in events if event["name"] == "allocated bytes" and event["ts"] <= began]
    return max(before, key=lambda event: event["ts"])["args"]["bytes"]


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def compare_loss(found: float, expected: float):
    if struct.pack("<f", found) != struct.pack("<f", expected) or not math.isfinite(expected):
        raise Failure(f"loss {found}, Python's is {expected}")


def compare(answer, gradients, python):
    loss, expected, *_ = python
    none, *others = answer["trials"]
    for trial in (none, *others):
        if trial["outcome"] != "ok":
            raise Failure(f"{trial['strategy']}: {trial['outcome']}")
    unknown = [note for note in answer["notes"] if "not known to memtune" in note]
    if unknown:
        raise Failure("; ".join(unknown))
    compare_loss(none["loss"][0], loss)
    gradients = {name: gradient for name, gradient in gradients.items() if gradient}  # of what the loss reads
    if sorted(gradients) != sorted(expected):
        raise Failure(f"other parameters: {sorted(set(gradients) ^ set(expected))[:4]}")
    other = [name for name, gradient in expected.items() if bits(gradient) != gradients[name]]
    if other:
        raise Failure(f"{len(other)} of {len(expected)} gradients differ: {other[:3]}")
    for trial in others:
        if trial["gradients"]["equal"] is not True:
            raise Failure(f"{trial['strategy']} has other gradients")
    return f"loss and {len(expected)} gradients equal"


def compare_memory(trial, live: int, held) -> str:
    differences = [live - held[0], trial["peak_bytes"]["allocated"] - held[1]]
    if any(abs(difference) > 64 for difference in differences):
        raise Failure(f"live and peak bytes are {differences} from Python's, {held}")
    return f"live and peak bytes {differences[0]:+} and {differences[1]:+}"


def first_cases():
    """The first case of each family."""
    return list({CASES[name][0]: name for name in reversed(CASES)}.values())


def in_one_dtype(cases):
    """Each case with one dtype, alternately."""
    return [(case, DTYPES[i % 2]) for i, case in enumerate(cases)]


def runs_of(options):
    """Returns (case, dtype, shapes): all shapes for the first case of a family, one for its other cases."""
    if not (NIGHT or options.only):
        return [(name, dtype, SHAPES[1:]) for name, dtype in in_one_dtype(first_cases()[::4])]
    return [(name, dtype, (SHAPES if name in first_cases() else SHAPES[1:]) + LONG.get(name, ()))
            for name in CASES if options.only in name for dtype in DTYPES]


def check(options, name: str, dtype: torch.dtype, shapes):
    """Yields (passed, line) for each shape."""
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, inputs = os.path.join(place, "model"), os.path.join(place, "inputs.safetensors")
        for shape in shapes:
            said = f"{name:16} {str(dtype)[6:]:9} {shape[0]} x {shape[1]}"
            try:
                batch = write_batch(inputs, shape)
                with ONE_AT_A_TIME:
                    write_model(folder, name, dtype)
                    python = train_in_python(folder, batch)
                    model = write_whole(folder, name) if name in WHOLE else folder
                    more = ("--text-only",) if name in WHOLE or CASES[name][0] in OF_IMAGES else ()
                run = os.path.join(place, f"run-{shape[0]}")
                answer = train_by_memtune(options, model, inputs, run, more=more)
                told = compare(answer, read_reference(run), python)
                if name in AUTOCAST and dtype == torch.float32:
                    with ONE_AT_A_TIME:
                        python_under = autocast_in_python(folder, batch)
                    under = train_by_memtune(options, folder, inputs, run + "-autocast", more=("--autocast", "bf16"))
                    told += ", under autocast " + compare(under, read_reference(run + "-autocast"), python_under)
                yield True, f"ok   {said}  {told}, {compare_memory(answer['trials'][0], live_by_memtune(options, run), python[2])}"
            except (Failure, subprocess.TimeoutExpired) as failure:
                yield False, f"FAIL {said}  {failure}"


def families(options):
    """The families that memtune lists as known."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({"model_type": "none"}, file)
        done = subprocess.run([options.memtune, "sweep", "--model", folder], capture_output=True, text=True)
    return re.search(r"Known: ([\w, ]+)", done.stderr).group(1).split(", ")


def prepare_python():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def tell(outcomes) -> int:
    """Prints the lines of all (passed, line), and counts. Returns the exit code."""
    passed = failed = 0
    for good, line in outcomes:
        print(line, flush=True)
        passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def options_of(documentation: str):
    p = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    p.add_argument("--only", default="", help="cases whose name holds this")
    p.add_argument("--jobs", type=int, default=2, help="cases at a time")
    return p.parse_args()


def tell_all(options, check, runs) -> int:
    """Prints the outcomes of check(options, *run) for each run. Returns the exit code."""
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return tell(itertools.chain.from_iterable(pool.map(lambda run: list(check(options, *run)), runs)))


def main() -> int:
    options = options_of(__doc__)
    prepare_python()
    without = [family for family in families(options) if family not in {case[0] for case in CASES.values()}]
    if without:
        print(f"check_transformers.py: no case for {', '.join(without)}", file=sys.stderr)
        return 2
    return tell_all(options, check, runs_of(options))


if __name__ == "__main__":
    sys.exit(main())
