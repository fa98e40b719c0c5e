"""Training scripts that account for their own steps (step_probe.py), with random weights and data. They do not use
memtune: bench/command_records.py compares both.

    python recorded.py gpt2 --out own.json --steps 23 [--checks] [--device cpu]

gpt2   124 M parameters in nanoGPT's style: an evaluation every fourth step
bench  the decoder of bench/model.py, 1.1 B parameters in bfloat16
vit    ViT-B/16 of timm, with a DataLoader that takes longer than the model
lora   LoRA of peft on a Llama of 1.2 B parameters in transformers' Trainer, checkpointed
unet   LoRA of peft on a UNet of diffusers, 0.86 B parameters
tune   torchtune's Llama of 1.2 B parameters, its checkpointing and its loss in chunks

On a CPU the models are tiny.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from step_probe import Probe

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))  # model.py


def autocast(options):
    return torch.autocast(options.device, torch.bfloat16)


# --- gpt2


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (each.view(rows, length, self.heads, -1).transpose(1, 2) for each in self.c_attn(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(rows, length, width))


class MLP(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.c_fc, self.gelu, self.c_proj = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def gpt2(options, probe):
    vocabulary, rows, length, *shape = (256, 2, 64, 64, 4, 2) if options.tiny else (50304, 12, 1024, 768, 12, 12)
    with torch.device(options.device):
        model = GPT(vocabulary, length, *shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    probe.model, probe.optimizer = model, optimizer
    data = torch.randint(0, vocabulary, (1 << 20,))

    def batch():
        starts = torch.randint(0, len(data) - length - 1, (rows,)).tolist()
        x, y = (torch.stack([data[i + shift:i + shift + length] for i in starts]) for shift in (0, 1))
        return [each.pin_memory().to(options.device, non_blocking=True) if probe.cuda else each for each in (x, y)]

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        losses = []
        for _ in range(4):
            x, y = batch()
            with autocast(options):
                losses.append(model(x, y)[1].item())
        model.train()
        return losses

    for step in probe.steps():
        if step % 4 == 0:
            with probe.ranged("evaluation"):
                estimate_loss()
        x, y = batch()
        with probe.ranged("forward"), autocast(options):
            logits, loss = model(x, y)
        probe.loss(loss)
        with probe.ranged("backward"):
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        probe.updating()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


# --- bench


def bench(options, probe):
    from model import MODELS, build, loss_fn, make_batch

    name = "tiny" if options.tiny else "bench"
    with torch.device(options.device):
        model = build(name).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    probe.model, probe.optimizer = model, optimizer
    x, y = make_batch(model, *MODELS[name][2:], options.device)
    for _ in probe.steps():
        with probe.ranged("forward"):
            logits = model(x)
            loss = loss_fn(logits, y)
        del logits
        probe.loss(loss)
        with probe.ranged("backward"):
            loss.backward()
        probe.updating()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


# --- vit


class Images(torch.utils.data.Dataset):
    """Stands for images that are slow to decode: a batch takes a worker `seconds`."""

    def __init__(self, side: int, seconds: float):
        self.images = torch.randint(0, 256, (256, 3, side, side), dtype=torch.uint8)
        self.seconds = seconds

    def __len__(self):
        return 1 << 20

    def __getitems__(self, indices):
        time.sleep(self.seconds)
        return [(self.images[i % 256], i % 1000) for i in indices]


def wait_in_turn(worker: int):
    time.sleep(0.5 * torch.utils.data.get_worker_info().dataset.seconds * worker)


def vit(options, probe):
    import timm

    rows, side, seconds = (4, 32, 0.02) if options.tiny else (128, 224, 0.16)
    with torch.device(options.device):
        model = timm.create_model("vit_tiny_patch16_224", img_size=side, depth=2) if options.tiny else \
            timm.create_model("vit_base_patch16_224")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    probe.model, probe.optimizer = model, optimizer
    loader = torch.utils.data.DataLoader(Images(side, seconds), batch_size=rows, num_workers=2, pin_memory=probe.cuda,
                                         worker_init_fn=wait_in_turn)
    batches = iter(loader)
    for _ in probe.steps():
        images, labels = next(batches)
        probe.fetched()
        images = images.to(options.device, non_blocking=True).float().div_(127.5).sub_(1)
        labels = labels.to(options.device, non_blocking=True)
        with probe.ranged("forward"), autocast(options):
            loss = F.cross_entropy(model(images), labels)
        probe.loss(loss)
        with probe.ranged("backward"):
            loss.backward()
        probe.updating()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


# --- lora


def lora(options, probe):
    import peft
    import transformers

    from common import Tokens

    transformers.logging.set_verbosity_error()
    shape = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2) if options.tiny else \
        dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
             num_key_value_heads=8, tie_word_embeddings=True)
    with torch.device(options.device):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).bfloat16()
    model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"],
                                                       task_type="CAUSAL_LM"))
    probe.model = model

    class Trainer(transformers.Trainer):
        def compute_loss(self, *arguments, **named):
            with probe.ranged("forward"):
                loss = super().compute_loss(*arguments, **named)
            probe.loss(loss)
            return loss

    class Steps(transformers.TrainerCallback):
        def on_step_begin(self, *_, optimizer=None, **__):
            probe.optimizer = optimizer
            probe.begin()

        def on_pre_optimizer_step(self, *_, **__):
            probe.updating()

        def on_step_end(self, *_, **__):
            probe.end()

    arguments = transformers.TrainingArguments(
        output_dir=options.out + ".trainer", per_device_train_batch_size=2 if options.tiny else 8, learning_rate=1e-4,
        max_steps=probe.last, bf16=True, optim="adamw_torch_fused", lr_scheduler_type="constant", report_to="none",
        save_strategy="no", logging_steps=1000, disable_tqdm=True, use_cpu=not probe.cuda, gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False})
    trainer = Trainer(model=model, args=arguments, callbacks=[Steps()],
                      train_dataset=Tokens(shape["vocab_size"], 64 if options.tiny else 1024))
    backward = trainer.accelerator.backward

    def ranged_backward(*arguments, **named):
        with probe.ranged("backward"):
            backward(*arguments, **named)

    trainer.accelerator.backward = ranged_backward
    trainer.train()


# --- unet


def unet(options, probe):
    import diffusers
    import peft

    shape = dict(sample_size=8, block_out_channels=(32, 64), down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                 up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), layers_per_block=1, cross_attention_dim=32,
                 attention_head_dim=8, norm_num_groups=8) if options.tiny else \
        dict(sample_size=64, cross_attention_dim=768)
    rows, words = (2, 8) if options.tiny else (8, 77)
    with torch.device(options.device):
        model = diffusers.UNet2DConditionModel(**shape).bfloat16().requires_grad_(False)
    model.add_adapter(peft.LoraConfig(r=16, lora_alpha=16, target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
    model.train()
    trained = [each for each in model.parameters() if each.requires_grad]
    for each in trained:
        each.data = each.data.float()
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    probe.model, probe.optimizer = model, optimizer
    side, text = shape["sample_size"], shape["cross_attention_dim"]
    for _ in probe.steps():
        noise = torch.randn(rows, 4, side, side, device=options.device)
        hidden = torch.randn(rows, words, text, device=options.device)
        times = torch.randint(0, 1000, (rows,), device=options.device)
        with probe.ranged("forward"), autocast(options):
            loss = F.mse_loss(model(noise, times, hidden, return_dict=False)[0].float(), noise)
        probe.loss(loss)
        with probe.ranged("backward"):
            loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        probe.updating()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


# --- tune


def tune(options, probe):
    from torchtune import modules, training
    from torchtune.models.llama3_2 import llama3_2
    from torchtune.modules.loss import CEWithChunkedOutputLoss

    shape = dict(vocab_size=256, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=64, intermediate_dim=128) if \
        options.tiny else dict(vocab_size=128256, num_layers=16, num_heads=32, num_kv_heads=8, embed_dim=2048,
                               intermediate_dim=8192)
    rows, length = (2, 64) if options.tiny else (4, 2048)
    with torch.device(options.device), training.set_default_dtype(torch.bfloat16):
        model = llama3_2(**shape, max_seq_len=length)
    training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    loss_of = CEWithChunkedOutputLoss()
    model.set_num_output_chunks(loss_of.num_output_chunks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    probe.model, probe.optimizer = model, optimizer
    for _ in probe.steps():
        tokens = torch.randint(0, shape["vocab_size"], (rows, length), device=options.device)
        labels = torch.hstack((tokens[:, 1:], torch.full_like(tokens[:, :1], -100)))
        with probe.ranged("forward"):
            logits = model(tokens)
            loss = loss_of(logits, labels)
        del logits
        probe.loss(loss)
        with probe.ranged("backward"):
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        probe.updating()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


WORKLOADS = {each.__name__: each for each in (gpt2, bench, vit, lora, unet, tune)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--out", required=True, help="a JSON file")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--checks", action="store_true", help="more steps, profiled and with recorded allocations")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    options.tiny = options.device == "cpu"
    torch.manual_seed(0)
    with Probe(options) as probe:
        WORKLOADS[options.workload](options, probe)


if __name__ == "__main__":
    main()
