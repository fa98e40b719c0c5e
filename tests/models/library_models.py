"""Models of torchvision and Hugging Face transformers that users train, tiny and with random weights.

A library that is not installed registers nothing. MISSING names it.
"""

from typing import List

import torch
from torch import Tensor, nn

from zoo import VOCABULARY, images, model, tokens

MISSING: List[str] = []

try:
    import torchvision
except ImportError:
    MISSING.append("torchvision")
else:
    class NarrowResNet(torchvision.models.ResNet):
        """torchvision's ResNet with an eighth of the channels."""

        def __init__(self, counts, classes: int = 10):
            super().__init__(torchvision.models.resnet.BasicBlock, counts, num_classes=classes)
            self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(8)
            self.fc = nn.Linear(64, classes)

        def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
            if planes == 64:
                self.inplanes = 8  # the stem of the base class has 64
            return super()._make_layer(block, planes // 8, blocks, stride, dilate)

    @model("resnet18", loss="cross_entropy", kinds=("script", "trace"), tags=("torchvision", "batch-norm"))
    def _():
        return NarrowResNet([2, 2, 2, 2]), images(8, 32)

    @model("resnet34", loss="cross_entropy", tags=("torchvision", "batch-norm"))
    def _():
        return NarrowResNet([3, 4, 6, 3]), images(8, 32)

    def vision_transformer(dropout: float):
        vit = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=3, num_heads=4,
                                                   hidden_dim=64, mlp_dim=128, dropout=dropout, num_classes=10)
        nn.init.normal_(vit.heads.head.weight, std=0.02)  # zero as initialised: no gradients in the blocks
        return vit

    @model("vit", loss="cross_entropy", kinds=("script", "trace"), deterministic=False,
           tags=("torchvision", "dropout"))
    def _():
        return vision_transformer(0.1), images(4, 32)

    @model("vit_plain", loss="cross_entropy", kinds=("script", "trace"), tags=("torchvision",))
    def _():
        return vision_transformer(0.0), images(4, 32)

try:
    import transformers

    transformers.logging.set_verbosity_error()
except ImportError:
    MISSING.append("transformers")
else:
    class Logits(nn.Module):
        """A causal language model that returns only its logits."""

        def __init__(self, language_model):
            super().__init__()
            self.model = language_model

        def forward(self, input_ids: Tensor) -> Tensor:
            return self.model(input_ids=input_ids, use_cache=False).logits

    class MaskedLogits(nn.Module):
        """A classifier over padded sequences that returns only its logits."""

        def __init__(self, classifier):
            super().__init__()
            self.model = classifier

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    def gpt2(attention: str, dropout: float):
        config = transformers.GPT2Config(n_layer=3, n_embd=64, n_head=4, n_positions=64, vocab_size=VOCABULARY,
                                         resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
                                         bos_token_id=0, eos_token_id=0, attn_implementation=attention)
        return Logits(transformers.GPT2LMHeadModel(config)), {"input_ids": tokens(2, 24)}

    def bert(dropout: float):
        config = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=3,
                                         num_attention_heads=4, intermediate_size=128, max_position_embeddings=64,
                                         hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
                                         num_labels=10, attn_implementation="sdpa")
        mask = (torch.arange(24) < torch.tensor([[24], [17], [9], [24]])).long()
        inputs = {"input_ids": tokens(4, 24), "attention_mask": mask, "target": torch.randint(0, 10, (4,))}
        return MaskedLogits(transformers.BertForSequenceClassification(config)), inputs

    def llama_like(config_class, model_class, **more):
        config = config_class(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=3,
                              num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                              bos_token_id=0, eos_token_id=0, pad_token_id=0, attn_implementation="sdpa", **more)
        return Logits(model_class(config)), {"input_ids": tokens(2, 24)}

    def mixtral(experts: str):
        return llama_like(transformers.MixtralConfig, transformers.MixtralForCausalLM, num_local_experts=4,
                          experts_implementation=experts)

    TRACE = ("trace",)

    @model("hf_gpt2_sdpa", loss="next_token", kinds=TRACE, deterministic=False, tags=("transformers", "dropout"))
    def _():
        return gpt2("sdpa", 0.1)

    @model("hf_gpt2_eager", loss="next_token", kinds=TRACE, deterministic=False, tags=("transformers", "dropout"))
    def _():
        return gpt2("eager", 0.1)

    @model("hf_gpt2_plain", loss="next_token", kinds=TRACE, tags=("transformers",))
    def _():
        return gpt2("sdpa", 0.0)

    @model("hf_bert", loss="cross_entropy", kinds=TRACE, deterministic=False, tags=("transformers", "dropout"))
    def _():
        return bert(0.1)

    @model("hf_bert_plain", loss="cross_entropy", kinds=TRACE, tags=("transformers",))
    def _():
        return bert(0.0)

    @model("hf_llama", loss="next_token", kinds=TRACE, tags=("transformers",))
    def _():
        return llama_like(transformers.LlamaConfig, transformers.LlamaForCausalLM)

    # Not batched_mm, because its gradients vary from run to run on a CPU.
    @model("hf_mixtral", loss="next_token", kinds=TRACE, tags=("transformers", "experts"))
    def _():
        return mixtral("grouped_mm")

    @model("hf_mixtral_loop", loss="next_token", kinds=TRACE, tags=("transformers", "experts"))
    def _():
        return mixtral("eager")
