"""Loops over models of transformers, peft and timm that run out of device memory: python libraries.py KIND [flags]

Each trains some steps first, unless its kind fails earlier. ../oom_causes.py starts them.
"""

import torch
from torch import nn

from common import VOCABULARY, batches, main, optimizer_of, report, update


def llama(options, layers: int = 12, width: int = 1024) -> nn.Module:
    import transformers
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=width, intermediate_size=4 * width,
                                      num_hidden_layers=layers, num_attention_heads=width // 64,
                                      attn_implementation=options.attention)
    with torch.device(options.device):
        return transformers.LlamaForCausalLM(config).to(getattr(torch, options.dtype)).train()


def train(model: nn.Module, options, lengths=()) -> None:
    if options.checkpoint:
        model.gradient_checkpointing_enable()
    optimizer = optimizer_of(model, options)
    for step, batch in enumerate(batches(options, lengths), 1):
        for ids in batch.chunk(options.accumulation):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss / options.accumulation
            loss.backward()
        update(optimizer)
        report(step, loss)


def long_context(options):
    """Full fine-tuning with a longer context than before."""
    train(llama(options), options)


def eager_attention(options):
    train(llama(options, layers=6, width=512), options)


def lora(options, lengths=()):
    """LoRA on a bfloat16 model: few parameters are trained, activations are those of the whole model."""
    import peft
    model = llama(options, layers=16, width=2048)
    config = peft.LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    if options.checkpoint:
        model.enable_input_require_grads()
    train(model, options, lengths)


def lora_long_row(options):
    """The same with one long document among short ones."""
    lora(options, lengths=[1024, 768, 1024, 16384])


def generation(options):
    """Samples from the model after some steps: the cache of keys and values grows with rows and length."""
    model = llama(options)
    train(model, options)
    model.eval()
    ids = torch.randint(VOCABULARY, (options.evaluation_batch_size, 1024), device=options.device)
    with torch.no_grad():
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False,
                              eos_token_id=None)
    print(f"{made.shape[0]} samples of {made.shape[1]} tokens")


def vit(options):
    """timm's ViT-B/16 in float32."""
    import timm
    with torch.device(options.device):
        model = timm.create_model("vit_base_patch16_224")
    model.set_grad_checkpointing(options.checkpoint)
    optimizer = optimizer_of(model, options)
    for step in range(1, options.steps + 1):
        images = torch.randn(options.batch_size, 3, 224, 224, device=options.device)
        labels = torch.randint(1000, (options.batch_size,), device=options.device)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        update(optimizer)
        report(step, loss)


if __name__ == "__main__":
    main({each.__name__: each for each in (long_context, eager_attention, lora, lora_long_row, generation, vit)})
