"""Compares the blocks that the shim finds in models of libraries with a table of expected names.

    blocks_test.py SHIM_FOLDER [--write]

The models are on the meta device, in the size of their class. tests/e2e/blocks.json has the names with '*' for numbers,
and how many blocks there are. Models of a library that is not installed are counted as not tried. --write writes the
table of those that are.
"""
import json
import pathlib
import re
import sys
import warnings

TABLE = pathlib.Path(__file__).with_name("blocks.json")
TRANSFORMERS = """llama gpt2 bert t5 vit clip wav2vec2 mamba mixtral deberta-v2 bart whisper llava qwen2_moe gpt_oss gemma3
convnext swin segformer resnet efficientnet qwen2_5_vl dinov2 siglip gpt_neox mpt deepseek_v3 detr modernbert regnet phi3
falcon_h1 rwkv jamba mobilenet_v2""".split()
TORCHVISION = """resnet50 densenet121 vgg16 efficientnet_b0 mobilenet_v3_large swin_t convnext_tiny vit_b_16""".split()
TIMM = "vit_base_patch16_224 mixer_b16_224 convnext_tiny swin_tiny_patch4_window7_224 resnet50 efficientnet_b0".split()


def of_transformers(name):
    import transformers

    return transformers.AutoModel.from_config(transformers.AutoConfig.for_model(name))


def of_torchvision(name):
    import torchvision

    if name == "deeplabv3_resnet50":
        return torchvision.models.segmentation.deeplabv3_resnet50(weights_backbone=None)
    if name == "fasterrcnn_resnet50_fpn":
        return torchvision.models.detection.fasterrcnn_resnet50_fpn(weights_backbone=None)
    return getattr(torchvision.models, name)()


def of_timm(name):
    import timm

    return timm.create_model(name)


def of_diffusers(name):
    import diffusers

    if name == "stable-diffusion-1.5":
        return diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
    if name == "stable-diffusion-xl":
        return diffusers.UNet2DConditionModel(
            cross_attention_dim=2048, block_out_channels=(320, 640, 1280), use_linear_projection=True,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            transformer_layers_per_block=(1, 2, 10), attention_head_dim=(5, 10, 20), addition_embed_type="text_time",
            addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816)
    if name == "AutoencoderKL":
        return diffusers.AutoencoderKL(block_out_channels=(128, 256, 512, 512), layers_per_block=2,
                                       down_block_types=("DownEncoderBlock2D",) * 4,
                                       up_block_types=("UpDecoderBlock2D",) * 4)
    return getattr(diffusers, name)()


LIBRARIES = {
    "transformers": (of_transformers, TRANSFORMERS),
    "torchvision": (of_torchvision, TORCHVISION + ["deeplabv3_resnet50", "fasterrcnn_resnet50_fpn"]),
    "timm": (of_timm, TIMM),
    "diffusers": (of_diffusers, ["FluxTransformer2DModel", "SD3Transformer2DModel", "stable-diffusion-1.5",
                                 "stable-diffusion-xl", "AutoencoderKL"]),
}


def blocks(model):
    """Names of blocks, how many there are, and the share of the parameters that they have."""
    found = memtune_parts.blocks_of(model, set())
    names = {}
    for path, _ in found:
        name = re.sub(r"\d+", "*", memtune_parts.name_of(model, path))
        names[name] = names.get(name, 0) + 1
    inside = {id(each) for _, module in found for each in module.parameters()}
    sizes = [(each.numel(), id(each) in inside) for each in model.parameters()]
    return {"blocks": names, "share": round(sum(size for size, own in sizes if own) / sum(size for size, _ in sizes), 2)}


def main():
    import torch

    found, missing = {}, 0
    for library, (make, names) in LIBRARIES.items():
        try:
            __import__(library)
        except ImportError:
            missing += len(names)
            continue
        for name in names:
            with torch.device("meta"):
                found[f"{library} {name}"] = blocks(make(name))
    if "--write" in sys.argv:
        lines = (f"  {json.dumps(name)}: {json.dumps(model)}" for name, model in found.items())
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    expected = json.loads(TABLE.read_text())
    wrong = [name for name in found if found[name] != expected.get(name)]
    for name in wrong:
        print(f"{name}: {found[name]}, expected {expected.get(name)}")
    print(f"{len(found)} models, {len(wrong)} differ; {missing} not tried, as their library is not installed")
    assert len(found) >= 40 and len(expected) == sum(len(names) for _, names in LIBRARIES.values())
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.path.insert(0, sys.argv[1])
    import memtune_parts
    warnings.simplefilter("ignore")
    sys.exit(main())
