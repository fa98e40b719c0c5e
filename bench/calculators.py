"""Asks other memory calculators about the trainings of bench/fit.py.

    pip install accelerate==1.15.0 torch transformers fitcheck-llm==0.3.1 vramcalc==0.1.2 ftuneai==0.4.1 fire
    pip install --no-deps llm-analysis==0.2.2    # its pins need huggingface-hub 0.14
    python3 bench/calculators.py OUT.json

Needs no GPU and no hub: a calculator that downloads a config gets the one of bench/configs.
"""

import argparse
import json
from importlib.metadata import version
from pathlib import Path

import fitcheck
import torch
import vramcalc
from accelerate import init_empty_weights
from accelerate.commands import estimate
from fit import CONFIGS, CONVERTED, TRAININGS
from fitcheck import config_parser
from fitcheck.memory.lora import LORA_TARGETS_FULL
from ftuneai import hub
from ftuneai.core import memory, models
from llm_analysis import analysis
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

CHECKPOINTING = {"none": False, "checkpoint:full": True}


class Cannot(Exception):
    """There is no argument for a setting that changes a term of the calculator's formula."""


class Training:
    def __init__(self, name):
        folder, self.batch, self.seq, flags = TRAININGS[name]
        self.flags = dict(zip(flags[::2], flags[1::2]))
        self.lora_rank = int(self.flags["--lora"].split(",")[0][2:]) if "--lora" in self.flags else None
        self.optimizer = self.flags.get("--optimizer", "adamw")
        self.fp32 = self.flags["--dtype"] == "float32"    # weights; the compute dtype is always bf16
        self.in_4bit = self.flags.get("--load-in") == "4bit"
        self.accumulate = int(self.flags.get("--accumulate", 1))
        self.path = CONFIGS / folder / "config.json"
        self.config = AutoConfig.from_pretrained(CONFIGS / folder)
        with init_empty_weights():
            model = AutoModelForCausalLM.from_config(self.config)
        model.tie_weights()
        self.parameters = sum(parameter.numel() for parameter in model.parameters())

    def cannot(self, *flags):
        for flag in sorted(self.flags.keys() & flags):
            raise Cannot(f"no argument for {flag} {self.flags[flag]}")


def ask_accelerate(training, checkpointing):
    """Column "Training using Adam" of `accelerate estimate-memory`: it knows no batch and no sequence."""
    training.cannot("--lora", "--load-in", "--optimizer")
    if checkpointing:
        raise Cannot("no argument for checkpointing")
    with init_empty_weights():
        model = AutoModel.from_config(training.config, dtype=torch.float32)
    estimate.create_empty_model = lambda *_, **__: model
    options = ["local", "--dtypes", "float32" if training.fp32 else "float16"]
    row, = estimate.gather_data(estimate.estimate_command_parser().parse_args(options))
    return max(row[3].values())


def ask_fitcheck(training, checkpointing):
    training.cannot("--loss-impl")
    config_parser.hf_hub_download = lambda **_: training.path
    config_parser._reported_param_count = lambda *_: training.parameters
    settings = fitcheck.TrainingConfig(
        optimizer=training.optimizer.replace("_", ""), optimizer_dtype="fp32" if training.fp32 else "bf16",
        precision="bf16", quantization="nf4" if training.in_4bit else "none", double_quant=training.in_4bit,
        lora_rank=training.lora_rank, lora_targets=list(LORA_TARGETS_FULL),
        batch_size=training.batch, seq_len=training.seq, grad_accum_steps=training.accumulate,
        grad_checkpoint=checkpointing, flash_attn=True)
    model = fitcheck.fetch_model_config("local")
    return fitcheck.estimate(model, settings, fitcheck.get_gpu("h200")).total_mib * 2**20


def ask_vramcalc(training, checkpointing):
    training.cannot("--loss-impl", "--load-in", "--optimizer")
    return vramcalc.estimate(
        training.path, mode="train", dtype="bf16", batch=training.batch, seq_len=training.seq,
        lora_rank=training.lora_rank, grad_checkpoint=checkpointing, attn_impl="sdpa",
        precision="amp" if training.fp32 else "pure").total


def ask_ftuneai(training, checkpointing):
    hub.fetch_model_config = lambda _: json.loads(training.path.read_text())
    spec = hub.resolve_model_from_hub("local")
    spec.parameters, spec.default_dtype = training.parameters, "float32" if training.fp32 else "bfloat16"
    method = models.FineTuneMethod("qlora" if training.in_4bit else "lora" if training.lora_rank else "full")
    settings = models.TrainingConfig(
        method=method, optimizer=models.OptimizerType(training.optimizer.replace("adamw_", "adam_")),
        batch_size=training.batch, seq_length=training.seq, gradient_checkpointing=checkpointing,
        flash_attention=True, lora_rank=training.lora_rank or 0, lora_target=models.LoRATarget.ALL_LINEAR)
    return memory.MemoryEstimator(spec, settings).estimate().total_gb * 2**30


def ask_llm_analysis(training, checkpointing):
    """It counts two matrices in an MLP: a gated MLP, which has three, gets one and a half times its width."""
    training.cannot("--loss-impl", "--lora", "--load-in", "--optimizer")
    config = training.config
    experts = getattr(config, "num_local_experts", 1)
    width = config.moe_intermediate_size if experts > 1 else getattr(config, "intermediate_size", None)
    width = width * 3 // 2 if width else 4 * config.hidden_size
    model = analysis.ModelConfig(
        "local", config.num_hidden_layers, config.num_attention_heads, config.hidden_size, config.vocab_size,
        max_seq_len=training.seq, num_key_value_heads=getattr(config, "num_key_value_heads", None),
        ffn_embed_dim=width, expansion_ratio=width / config.hidden_size,
        moe_num_experts=experts, moe_top_k=getattr(config, "num_experts_per_tok", 1))
    # Its default is mixed precision. In bf16 AdamW has 4 bytes of states: half of them as "master weights".
    bf16 = {} if training.fp32 else {"master_weights_dtype_bytes": 2, "other_op_bytes": 2}
    recomputation = analysis.ActivationRecomputation["FULL" if checkpointing else "NONE"]
    answer = analysis.LLMAnalysis(model, analysis.GPUConfig("h200", 141, 4800, 450, 8e-6, 989)).training(
        batch_size_per_gpu=training.batch, gradient_accumulation_steps=training.accumulate,
        seq_len=training.seq, flash_attn=True, activation_recomputation=recomputation, **bf16)
    return answer["(weight+op_state+grad+act)_memory_per_gpu"]


CALCULATORS = {"accelerate": ask_accelerate, "fitcheck-llm": ask_fitcheck, "vramcalc": ask_vramcalc,
               "ftuneai": ask_ftuneai, "llm-analysis": ask_llm_analysis}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    analysis.logger.setLevel("ERROR")
    written = {"calculators": {name: version(name) for name in CALCULATORS}, "trainings": {},
               "cannot": {name: [] for name in CALCULATORS}, "why": {name: {} for name in CALCULATORS}}
    for name in (name for name, training in TRAININGS.items() if training[3] != CONVERTED):  # of language models
        training, answers = Training(name), written["trainings"].setdefault(name, {})
        for calculator, ask in CALCULATORS.items():
            for strategy, checkpointing in CHECKPOINTING.items():
                try:
                    answered = {strategy: round(ask(training, checkpointing))}
                    answers[calculator] = answers.get(calculator, {}) | answered
                except (Cannot, ValueError) as error:
                    written["why"][calculator].setdefault(name, {})[strategy] = str(error)
            if calculator not in answers:
                written["cannot"][calculator].append(name)
    options.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
