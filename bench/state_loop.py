"""Trains a Llama of transformers in a plain PyTorch loop, with everything on the GPU or under an exported plan that offloads
parameters and optimizer states.

    python3 bench/state_loop.py FOLDER                                            # FOLDER/config.json; optimizer in backward
    python3 bench/state_loop.py FOLDER --plan memtune_plan.py                     # as `memtune export --trainer python` wrote it
    python3 bench/state_loop.py FOLDER --clip 1 --accumulate 4 [--plan ...]

Random weights in bf16, fused AdamW, every block checkpointed, the loss in eight chunks. Prints a line of JSON: median of the
steps behind the first two, all steps, losses, and peaks from the third step on.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time

import torch
import transformers
from torch.utils.checkpoint import checkpoint

GIB = 1 << 30
CHUNKS, SETTLING = 8, 2  # of the loss; steps that are not counted


def make_model(options):
    config = transformers.LlamaConfig.from_pretrained(options.folder)
    config._attn_implementation, config.use_cache = "sdpa", False
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(options.device):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.train()


def apply_plan(options, model, optimizer):
    spec = importlib.util.spec_from_file_location("memtune_plan", options.plan)
    module = sys.modules["memtune_plan"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.apply(model, optimizer, deferred=options.clip > 0 or options.accumulate > 1)


def update_in_backward(model):
    optimizers = {p: torch.optim.AdamW([p], lr=1e-5, fused=True) for p in model.parameters()}

    def update(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)


def loss_of(model, ids):
    def chunk(hidden, labels):
        return torch.nn.functional.cross_entropy(model.lm_head(hidden).float(), labels, reduction="sum")

    hidden = model.model(ids).last_hidden_state[:, :-1].reshape(-1, model.config.hidden_size)
    labels = ids[:, 1:].reshape(-1)
    parts = zip(hidden.chunk(CHUNKS), labels.chunk(CHUNKS))
    return sum(checkpoint(chunk, *part, use_reentrant=False) for part in parts) / labels.numel()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--plan", default="")
    parser.add_argument("--clip", type=float, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    model = make_model(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    if options.plan:
        apply_plan(options, model, optimizer)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if not options.clip and options.accumulate == 1:
            update_in_backward(model)
    times, losses = [], []
    for step in range(options.steps):
        if on_gpu:
            torch.cuda.synchronize()
            if step == SETTLING:
                torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        for part in range(options.accumulate):
            seed = torch.Generator().manual_seed(step * 100 + part)
            ids = torch.randint(model.config.vocab_size, (options.batch, options.length), generator=seed)
            loss = loss_of(model, ids.to(options.device)) / options.accumulate
            loss.backward()
        if options.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
        losses.append(loss.item())
    print(json.dumps({"plan": bool(options.plan), "clip": options.clip, "accumulate": options.accumulate,
                      "ms": statistics.median(times[SETTLING:]), "all": times, "losses": losses,
                      "allocated_gib": torch.cuda.max_memory_allocated() / GIB if on_gpu else 0,
                      "reserved_gib": torch.cuda.max_memory_reserved() / GIB if on_gpu else 0}))


if __name__ == "__main__":
    main()
