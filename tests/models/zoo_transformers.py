"""The zoo's models of Hugging Face transformers: tiny configurations of popular models, random weights, traced.

A row is a model type with the settings that its configuration needs beyond SMALL. Configurations ignore unknown names.
"""

import torch
import transformers
from torch import Tensor, nn

from zoo import VOCABULARY, register, tokens

transformers.logging.set_verbosity_error()

SMALL = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
             eos_token_id=2, use_cache=False)

DECODERS = {
    "llama": {}, "mistral": {}, "qwen2": {}, "qwen3": {}, "gemma": {}, "gemma2": {}, "gemma3_text": {},
    "phi": {}, "phi3": {}, "gpt2": {}, "gpt_neox": {}, "gpt_bigcode": {}, "gptj": dict(rotary_dim=8),
    "gpt_neo": dict(attention_types=[[["global", "local"], 1], [["global"], 1]], num_layers=3),
    "codegen": dict(rotary_dim=8, n_ctx=64), "opt": dict(ffn_dim=128, word_embed_proj_dim=64),
    "mpt": dict(d_model=64, n_heads=4, n_layers=3, max_seq_len=64), "falcon": dict(head_dim=None), "stablelm": {}, "starcoder2": {},
    "olmo": {}, "olmo2": {}, "granite": {}, "cohere": {}, "cohere2": {}, "glm": {}, "glm4": {}, "smollm3": {},
    "helium": {}, "nemotron": {}, "persimmon": {}, "biogpt": {}, "xglm": dict(d_model=64, attention_heads=4,
                                                                           num_layers=3, ffn_dim=128),
    "mixtral": dict(num_local_experts=4), "mamba": dict(state_size=4), "rwkv": dict(attention_hidden_size=64),
    "qwen2_moe": dict(num_experts=4, moe_intermediate_size=32, shared_expert_intermediate_size=64,
                      num_experts_per_tok=2),
    "qwen3_moe": dict(num_experts=4, moe_intermediate_size=32, num_experts_per_tok=2),
    "openai-gpt": {}, "seed_oss": {}, "arcee": {}, "ernie4_5": {}, "exaone4": {}, "olmo3": {}, "apertus": {},
    "diffllama": {}, "ministral": {}, "hunyuan_v1_dense": {}, "bitnet": {},
}

CLASSIFIERS = {
    "bert": {}, "roberta": {}, "xlm-roberta": {}, "camembert": {}, "electra": dict(embedding_size=64),
    "distilbert": dict(dim=64, n_layers=3, n_heads=4, hidden_dim=128), "albert": dict(embedding_size=32),
    "deberta": dict(relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "deberta-v2": dict(relative_attention=True, pos_att_type=["c2p", "p2c"]), "ernie": {}, "megatron-bert": {},
    "mobilebert": dict(embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32), "rembert": dict(
        input_embedding_size=32, output_embedding_size=32), "roformer": dict(embedding_size=64), "mpnet": {},
    "squeezebert": dict(embedding_size=64), "convbert": dict(embedding_size=64), "fnet": {}, "layoutlm": {},
    "funnel": dict(block_sizes=[1, 1, 1], d_model=64, n_head=4, d_head=16, d_inner=128, num_hidden_layers=None),
    "nystromformer": dict(segment_means_seq_len=24, num_landmarks=24), "xlnet": dict(
        d_model=64, n_layer=3, n_head=4, d_inner=128, max_position_embeddings=None),
    "flaubert": dict(emb_dim=64, n_layers=3, n_heads=4), "modernbert": {}, "esm": {}, "big_bird": dict(
        attention_type="original_full"), "roc_bert": {}, "data2vec-text": {}, "nomic_bert": {},
}

TWO_SIDED = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                 encoder_ffn_dim=128, decoder_ffn_dim=128, decoder_start_token_id=1, forced_eos_token_id=None)
T5 = dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4, decoder_start_token_id=0)
TRANSLATORS = {
    "t5": T5, "mt5": T5, "umt5": T5, "longt5": T5, "switch_transformers": dict(T5, num_experts=2),
    "bart": TWO_SIDED, "mbart": TWO_SIDED, "pegasus": TWO_SIDED, "marian": TWO_SIDED, "m2m_100": TWO_SIDED,
    "blenderbot": TWO_SIDED, "blenderbot-small": TWO_SIDED, "plbart": TWO_SIDED, "mvp": TWO_SIDED,
}

STAGES = dict(depths=[1, 1, 2, 1], hidden_sizes=[16, 24, 32, 48], image_size=64, num_hidden_layers=None)
VISION = {
    "vit": dict(image_size=32, patch_size=8),
    "beit": dict(image_size=32, patch_size=8), "dinov2": dict(image_size=32, patch_size=8),
    "vit_msn": dict(image_size=32, patch_size=8), "ijepa": dict(image_size=32, patch_size=8),
    "siglip": {}, "convnext": STAGES,
    "convnextv2": STAGES, "resnet": dict(STAGES, embedding_size=16, layer_type="basic", hidden_act="relu"),
    "regnet": dict(STAGES, embedding_size=16, groups_width=8, hidden_act="relu"), "bit": dict(
        STAGES, embedding_size=16, num_groups=4),
    "poolformer": dict(STAGES, hidden_act="gelu"), "segformer": dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64],
                                                                    num_attention_heads=[1, 2, 3, 4]),
    "mobilenet_v1": dict(image_size=64, depth_multiplier=0.25, hidden_act="relu6"), "mobilenet_v2": dict(
        image_size=64, depth_multiplier=0.25, hidden_act="relu6"),
    "mobilevit": dict(image_size=64, hidden_sizes=[32, 48, 64], neck_hidden_sizes=[8, 8, 16, 24, 32, 48, 64]),
    "pvt": dict(image_size=64, num_attention_heads=[1, 2, 5, 8], depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 40, 64]),
    "focalnet": dict(image_size=64, embed_dim=16, depths=[1, 1, 2, 1], focal_levels=[2, 2, 2, 2]),
    "hiera": dict(image_size=[64, 64], embed_dim=16, depths=[1, 2, 2, 1]), "swiftformer": dict(depths=[1, 1, 2, 1]),
    "efficientnet": dict(image_size=64, width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=1280 // 4),
}

HEARERS = {"wav2vec2": {}, "hubert": {}, "wavlm": {}, "unispeech": {}, "unispeech-sat": {}, "data2vec-audio": {},
           "sew": dict(squeeze_factor=2), "wav2vec2-conformer": {}}
EARS = dict(conv_dim=(16, 16), conv_stride=(5, 4), conv_kernel=(10, 8), num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4, conv_bias=False, num_feat_extract_layers=2, mask_time_prob=0.0,
            mask_feature_prob=0.0, num_labels=10, classifier_proj_size=32, do_stable_layer_norm=False)


def configuration(kind: str, **more):
    """The configuration without layerdrop. It draws random numbers in Python, which a trace cannot record."""
    fixed = {f"{side}layerdrop": 0.0 for side in ("", "encoder_", "decoder_")}
    settings = {name: value for name, value in {**SMALL, **fixed, **more}.items() if value is not None}
    return type(transformers.AutoConfig.for_model(kind))(**settings)


class Tokens(nn.Module):
    """A model that takes tokens and returns only its logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.model(input_ids=input_ids).logits


class Pairs(Tokens):
    """An encoder and a decoder over the same tokens."""

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, decoder_input_ids=input_ids).logits


class Pixels(Tokens):
    def forward(self, x: Tensor) -> Tensor:
        return self.model(pixel_values=x).logits


class Waves(Tokens):
    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).logits


def decoder(kind, more):
    return Tokens(transformers.AutoModelForCausalLM.from_config(configuration(kind, **more))), {
        "input_ids": tokens(2, 24)}


def classifier(kind, more):
    model = transformers.AutoModelForSequenceClassification.from_config(configuration(kind, num_labels=10, **more))
    return Tokens(model), {"input_ids": torch.randint(3, VOCABULARY, (2, 24)), "target": torch.randint(0, 10, (2,))}


def translator(kind, more):
    model = transformers.AutoModelForSeq2SeqLM.from_config(configuration(kind, **more))
    return Pairs(model), {"input_ids": torch.randint(3, VOCABULARY, (2, 24))}


def vision(kind, more):
    config = configuration(kind, num_labels=10, **more)
    if kind == "siglip":
        config.vision_config = transformers.SiglipVisionConfig(hidden_size=64, intermediate_size=128,
                                                               num_hidden_layers=3, num_attention_heads=4,
                                                               image_size=32, patch_size=8)
    side = more.get("image_size", 32 if kind == "siglip" else 64)
    side = side[0] if isinstance(side, list) else side
    return Pixels(transformers.AutoModelForImageClassification.from_config(config)), {
        "x": torch.randn(2, 3, side, side), "target": torch.randint(0, 10, (2,))}


def hearer(kind, more):
    model = transformers.AutoModelForAudioClassification.from_config(configuration(kind, **EARS, **more))
    return Waves(model), {"x": torch.randn(2, 2000), "target": torch.randint(0, 10, (2,))}


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        config = transformers.WhisperConfig(**{**SMALL, **TWO_SIDED}, num_mel_bins=16, max_source_positions=50,
                                            max_target_positions=64, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
        self.model = transformers.WhisperForConditionalGeneration(config)

    def forward(self, input_features: Tensor, input_ids: Tensor) -> Tensor:
        return self.model(input_features=input_features, decoder_input_ids=input_ids).logits


class Clip(nn.Module):
    """Returns its loss."""

    def __init__(self):
        super().__init__()
        text = dict(SMALL, projection_dim=32)
        image = dict(SMALL, image_size=32, patch_size=8, projection_dim=32)
        config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=32)
        self.model = transformers.CLIPModel(config)

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, pixel_values=pixel_values, return_loss=True).loss


class UnmaskedLlama(Tokens):
    """Traced so that attention uses its kernel's own causal mask."""

    def __init__(self):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
        transformers.AttentionInterface.register("sdpa_no_mask", sdpa_attention_forward)
        super().__init__(transformers.AutoModelForCausalLM.from_config(configuration("llama")))
        self.model.set_attn_implementation("sdpa_no_mask")


for family, rows, build, loss in (("decoder", DECODERS, decoder, "next_token"),
                                  ("classifier", CLASSIFIERS, classifier, "cross_entropy"),
                                  ("translator", TRANSLATORS, translator, "next_token"),
                                  ("vision", VISION, vision, "cross_entropy"),
                                  ("hearer", HEARERS, hearer, "cross_entropy")):
    for kind, more in rows.items():
        register(f"hf_{kind}", loss, lambda build=build, kind=kind, more=more: build(kind, more), kinds=("trace",),
                 tags=("transformers", family))
register("hf_whisper", "next_token", lambda: (Whisper(), {"input_features": torch.randn(2, 16, 100),
                                                          "input_ids": tokens(2, 24)}),
         kinds=("trace",), tags=("transformers", "translator"))
register("hf_clip", "returned", lambda: (Clip(), {"input_ids": tokens(2, 24), "pixel_values": torch.randn(2, 3, 32, 32)}),
         kinds=("trace",), tags=("transformers", "vision"))
register("hf_llama_no_mask", "next_token", lambda: (UnmaskedLlama(), {"input_ids": tokens(2, 24)}), kinds=("trace",),
         tags=("transformers", "decoder"))
