"""Models of three libraries, and one with everything that the libraries lack, as users export them.

They are tiny or for small images, with random weights, in training mode. MODELS[library] maps names to functions that
return an Export.
"""

import importlib.util
from dataclasses import dataclass
from typing import Callable, Dict

import torch
import torchvision
import transformers
from torch import Tensor, nn

transformers.logging.set_verbosity_error()
VOCABULARY, CLASSES = 97, 10


@dataclass
class Export:
    model: nn.Module
    loss: str  # its name in memtune
    inputs: Callable[[int], Dict[str, Tensor]]  # inputs for a batch size, with the target if the loss has one
    sequence: bool = False  # the second dimension of all inputs is dynamic too


def tokens(batch: int) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, 24 if batch == 2 else 17))


# --- transformers ---

SMALL = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
             use_cache=False, num_labels=CLASSES, initializer_range=0.1, layerdrop=0.0)
DECODERS = {
    "llama": {}, "mistral": dict(sliding_window=64), "qwen2": {}, "qwen3": {}, "gemma2": {}, "gemma3_text": {}, "phi3": {},
    "gpt_neox": {}, "gpt2": {}, "bloom": {}, "falcon": dict(head_dim=None), "olmo2": {}, "granite": {}, "cohere2": {},
    "stablelm": {}, "starcoder2": {}, "glm4": {}, "smollm3": {},
    "mixtral": dict(num_local_experts=4), "qwen3_moe": dict(num_experts=4, moe_intermediate_size=32, num_experts_per_tok=2),
}
IN_BFLOAT16 = {"mixtral", "qwen3_moe"}  # LibTorch has no CPU operator for their experts in float32
READERS = {"bert": {}, "roberta": {}, "deberta-v2": dict(relative_attention=True, pos_att_type=["c2p", "p2c"])}
VIEWERS = {"vit": dict(image_size=32, patch_size=8),
           "dinov2": dict(image_size=32, patch_size=8)}


def configuration(kind: str, **more):
    settings = {name: value for name, value in {**SMALL, **more}.items() if value is not None}
    return type(transformers.AutoConfig.for_model(kind))(**settings)


def decoder(kind: str, more: dict) -> Export:
    model = transformers.AutoModelForCausalLM.from_config(configuration(kind, **more))
    if kind in IN_BFLOAT16:
        model = model.bfloat16()

    def inputs(batch: int):
        ids = tokens(batch)
        return {"input_ids": ids, "labels": torch.where(torch.rand(ids.shape) < 0.2, -100, ids)}
    return Export(model, "returned", inputs, sequence=True)


def unmasked_llama() -> Export:
    """Attention uses its kernel's own causal mask, and memtune computes the loss."""
    transformers.AttentionInterface.register("sdpa_no_mask", transformers.AttentionInterface()["sdpa"])
    export = decoder("llama", {})
    export.model.set_attn_implementation("sdpa_no_mask")
    return Export(export.model, "next_token", lambda batch: {"input_ids": tokens(batch)}, sequence=True)


def reader(kind: str, more: dict) -> Export:
    model = transformers.AutoModelForSequenceClassification.from_config(configuration(kind, **more))

    def inputs(batch: int):
        ids = tokens(batch).clamp(min=3)
        mask = (torch.arange(ids.shape[1]) < torch.tensor([ids.shape[1], 9, 12][:batch])[:, None]).long()
        return {"input_ids": ids, "attention_mask": mask, "target": torch.randint(0, CLASSES, (batch,))}
    return Export(model, "cross_entropy", inputs, sequence=True)


def viewer(kind: str, more: dict) -> Export:
    model = transformers.AutoModelForImageClassification.from_config(configuration(kind, **more))
    return Export(model, "cross_entropy", images("pixel_values", 32))


def translator() -> Export:
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2,
                                   num_heads=4, decoder_start_token_id=0, use_cache=False)
    return Export(transformers.T5ForConditionalGeneration(config), "returned",
                  lambda batch: {"input_ids": tokens(batch), "labels": tokens(batch)}, sequence=True)


def clip() -> Export:
    text = dict(SMALL, projection_dim=32)
    image = dict(SMALL, image_size=32, patch_size=8, projection_dim=32)
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=32))

    class Logits(nn.Module):  # CLIP's own loss counts the batch in Python, and export would fix that number
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids: Tensor, pixel_values: Tensor):
            return {"logits": self.model(input_ids=input_ids, pixel_values=pixel_values).logits_per_image}

    return Export(Logits(), "cross_entropy", lambda batch: {
        "input_ids": tokens(batch)[:, :17], "pixel_values": torch.randn(batch, 3, 32, 32), "target": torch.arange(batch)})


# --- torchvision and timm ---

def images(name: str, side: int):
    return lambda batch: {name: torch.randn(batch, 3, side, side), "target": torch.randint(0, CLASSES, (batch,))}


TORCHVISION = {
    "resnet18": 32, "alexnet": 64, "vgg11_bn": 32, "squeezenet1_1": 64, "densenet121": 32, "shufflenet_v2_x0_5": 32,
    "mobilenet_v2": 32, "mobilenet_v3_small": 32, "mnasnet0_5": 32, "regnet_y_400mf": 32, "regnet_x_400mf": 32,
    "efficientnet_b0": 32, "convnext_tiny": 32, "swin_t": 32, "swin_v2_t": 64, "resnext50_32x4d": 32,
}
TIMM = {  # side of the image
    "resnet18": (32, {}), "seresnet18": (32, {}), "efficientnet_b0": (32, {}), "mobilenetv3_small_050": (32, {}),
    "mobilenetv4_conv_small": (64, {}), "tinynet_e": (32, {}), "ghostnet_050": (32, {}), "lcnet_035": (32, {}),
    "regnety_002": (32, {}), "regnetx_002": (32, {}), "repvgg_a0": (32, {}), "mobileone_s0": (32, {}),
    "convnext_atto": (64, {}), "convnextv2_atto": (64, {}), "poolformer_s12": (64, {}), "mobilevit_xxs": (64, {}),
    "vit_tiny_patch16_224": (64, {"img_size": 64}), "deit_tiny_patch16_224": (64, {"img_size": 64}),
    "mixer_s32_224": (64, {"img_size": 64}), "resmlp_12_224": (64, {"img_size": 64}), "pvt_v2_b0": (64, {}),
    "gmlp_s16_224": (64, {"img_size": 64}),
}


def of_torchvision(name: str) -> Export:
    return Export(getattr(torchvision.models, name)(num_classes=CLASSES), "cross_entropy", images("x", TORCHVISION[name]))


def with_dropout() -> Export:
    vit = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=32,
                                               mlp_dim=48, dropout=0.1, num_classes=CLASSES)
    nn.init.normal_(vit.heads.head.weight, std=0.02)  # zero as initialised: no gradients in the blocks
    return Export(vit, "cross_entropy", images("x", 32))


def max_vit() -> Export:
    return Export(torchvision.models.MaxVit((64, 64), 16, 4, [16, 32], [1, 2], 16, 0.0, num_classes=CLASSES), "cross_entropy",
                  images("x", 64))


def film() -> Export:
    return Export(torchvision.models.video.r3d_18(num_classes=CLASSES), "cross_entropy",
                  lambda batch: {"x": torch.randn(batch, 3, 4, 32, 32), "target": torch.randint(0, CLASSES, (batch,))})


def of_timm(name: str) -> Export:
    import timm
    side, more = TIMM[name]
    return Export(timm.create_model(name, pretrained=False, num_classes=CLASSES, **more), "cross_entropy", images("x", side))


# --- features that no model of the libraries combines ---

class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.attention, self.drop = nn.MultiheadAttention(width, 2, batch_first=True), nn.Dropout(0.1)
        self.register_buffer("scale", torch.rand(width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            mean = x.mean()
        with torch.autocast("cpu", torch.bfloat16):
            y = self.up(self.norm(x)) + self.up(x)
        y = x + self.drop(self.down(torch.relu_(y.float()))) * self.scale + mean
        return y + self.attention(y, y, y, need_weights=False)[0]


class Everything(nn.Module):
    """Tied and frozen parameters, all kinds of buffers, regions, a branch, mutation, sizes computed from sizes."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.norm = nn.BatchNorm1d(width)
        self.frozen = nn.Parameter(torch.rand(width), requires_grad=False)
        self.register_buffer("count", torch.zeros(1))
        self.plain = torch.ones(width)  # neither a parameter nor a buffer

    def forward(self, input_ids: Tensor, mask: Tensor):
        self.count.add_(1)
        mask.logical_not_()
        x = self.embedding(input_ids) * self.frozen * self.plain
        for block in self.blocks:
            x = self.blocks[0](block(x))  # a module that runs several times
        left, right = x.split(8, -1)
        top, _ = right.chunk(2, -1)[0].topk(2, -1)
        n = input_ids.shape[1] // 2 + input_ids.shape[0] % 3
        x = torch.cat([left, right], -1) * (n ** 2 / (1 + n)) * min(n, 7)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2).masked_fill(mask[..., None], 0.5)
        x = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.sin(), (x,))
        x = torch.einsum("btw,w->btw", x, torch.tensor([1.0, 2.0, 3.0, 4.0]).repeat(4) * self.count)
        added = torch.zeros_like(x).index_add(1, torch.tensor([0, 2]), x[:, :2])
        return {"logits": self.head(x + added + top.sum(-1, keepdim=True)), "top": top}


def everything() -> Export:
    return Export(Everything(), "next_token", lambda batch: {"input_ids": tokens(batch), "mask": torch.rand(
        tokens(batch).shape) < 0.3}, sequence=True)


MODELS: Dict[str, Dict[str, Callable[[], Export]]] = {
    "own": {"everything": everything},
    "transformers": {
        **{kind: lambda kind=kind, more=more: decoder(kind, more) for kind, more in DECODERS.items()},
        "llama-no-mask": unmasked_llama,
        **{kind: lambda kind=kind, more=more: reader(kind, more) for kind, more in READERS.items()},
        **{kind: lambda kind=kind, more=more: viewer(kind, more) for kind, more in VIEWERS.items()},
        "t5": translator, "clip": clip},
    "torchvision": {
        **{name: lambda name=name: of_torchvision(name) for name in TORCHVISION},
        "vit-dropout": with_dropout, "maxvit": max_vit, "r3d_18": film},
    "timm": {name: lambda name=name: of_timm(name) for name in TIMM} if importlib.util.find_spec("timm") else {},
}
FEW = {"own": ("everything",), "transformers": ("llama",), "torchvision": ("mobilenet_v3_small",),
       "timm": ("vit_tiny_patch16_224",)}
