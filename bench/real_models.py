"""Export models as people train them (torchvision, transformers; random weights, full size) as TorchScript.

    python bench/real_models.py FOLDER        # resnet50.pt, vit_b_16.pt, gpt2.pt, bert.pt and the memtune commands for them
"""

import os
import sys

import torch
import torchvision
import transformers


class Logits(torch.nn.Module):
    """A Hugging Face model that answers with its logits alone, so that it can be traced."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor):
        return self.model(input_ids=tokens).logits


def script(model, example):
    return torch.jit.script(model)


def trace(model, example):
    return torch.jit.trace(Logits(model), example, check_trace=False)


def models():
    image = torch.randn(2, 3, 224, 224)
    tokens = torch.randint(0, 1000, (2, 64))
    yield "resnet50", script, torchvision.models.resnet50(), image, "cross_entropy", ":float32[128,3,224,224]"
    yield "vit_b_16", script, torchvision.models.vit_b_16(dropout=0.1), image, "cross_entropy", ":float32[64,3,224,224]"
    gpt2 = transformers.GPT2Config(use_cache=False, attn_implementation="sdpa")
    yield "gpt2", trace, transformers.GPT2LMHeadModel(gpt2), tokens, "next_token", "tokens:int64[16,1024]<50257"
    bert = transformers.BertConfig(attn_implementation="sdpa")
    yield "bert", trace, transformers.BertForMaskedLM(bert), tokens, "next_token", "tokens:int64[32,512]<30522"


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, export, model, example, loss, spec in models():
        path = os.path.join(folder, f"{name}.pt")
        export(model.train(), example).save(path)
        print(f"{path} {loss} {spec}", flush=True)


if __name__ == "__main__":
    main()
