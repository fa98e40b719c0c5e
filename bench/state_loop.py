"""Trains a Llama of transformers in a plain PyTorch loop or by transformers' Trainer, with everything on the GPU or under an
exported plan that offloads parameters and optimizer states.

    python3 bench/state_loop.py FOLDER                                            # FOLDER/config.json; optimizer in backward
    python3 bench/state_loop.py FOLDER --plan memtune_plan.py                     # as `memtune export --trainer python` wrote it
    python3 bench/state_loop.py FOLDER --clip 1 --accumulate 4 [--plan ...]
    python3 bench/state_loop.py FOLDER --trainer --clip 1 --accumulate 2 --steps 50 [--plan ...]

Random weights in bf16, fused AdamW, every block checkpointed; in the loop, the loss is in eight chunks. Prints a line of JSON: median of the
steps behind the first two, all steps, losses, and peaks from the third step on.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
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


def load_plan(options):
    spec = importlib.util.spec_from_file_location("memtune_plan", options.plan)
    module = sys.modules["memtune_plan"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tokens_of(options, model, row: int):
    return torch.randint(model.config.vocab_size, (options.length,), generator=torch.Generator().manual_seed(row))


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


class StepClock(transformers.TrainerCallback):
    """Times a trainer's steps, and resets the peak behind the first ones."""

    def __init__(self, clock):
        self.clock = clock

    def on_step_begin(self, args, state, control, **_):
        self.clock.begin(state.global_step)

    def on_step_end(self, args, state, control, **_):
        self.clock.end()


class Clock:
    def __init__(self, on_gpu: bool):
        self.on_gpu, self.times, self.began = on_gpu, [], 0.0

    def begin(self, step: int):
        if self.on_gpu:
            torch.cuda.synchronize()
            if step == SETTLING:
                torch.cuda.reset_peak_memory_stats()
        self.began = time.perf_counter()

    def end(self):
        if self.on_gpu:
            torch.cuda.synchronize()
        self.times.append(1e3 * (time.perf_counter() - self.began))


class Rows(torch.utils.data.Dataset):
    def __init__(self, options, model):
        self.options, self.model = options, model

    def __len__(self):
        return self.options.steps * self.options.accumulate * self.options.batch

    def __getitem__(self, row):
        tokens = tokens_of(self.options, self.model, row)
        return {"input_ids": tokens, "labels": tokens}


def train_by_trainer(options, model, clock) -> list:
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder, per_device_train_batch_size=options.batch, gradient_accumulation_steps=options.accumulate,
            max_grad_norm=options.clip, max_steps=options.steps, learning_rate=1e-5, lr_scheduler_type="constant",
            weight_decay=0.01, optim="adamw_torch_fused", logging_steps=1, save_strategy="no", report_to="none",
            disable_tqdm=True, use_cpu=not clock.on_gpu,
            gradient_checkpointing=not options.plan, gradient_checkpointing_kwargs={"use_reentrant": False})
        plan = [load_plan(options).PlanCallback()] if options.plan else []
        trainer = transformers.Trainer(model=model, args=settings, train_dataset=Rows(options, model),
                                       callbacks=[*plan, StepClock(clock)])
        trainer.train()
        return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def train_in_loop(options, model, clock) -> list:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    if options.plan:
        load_plan(options).apply(model, optimizer, deferred=options.clip > 0 or options.accumulate > 1)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if not options.clip and options.accumulate == 1:
            update_in_backward(model)
    losses, rows = [], Rows(options, model)
    for step in range(options.steps):
        clock.begin(step)
        for part in range(options.accumulate):
            first = (step * options.accumulate + part) * options.batch
            ids = torch.stack([rows[first + i]["input_ids"] for i in range(options.batch)])
            loss = loss_of(model, ids.to(options.device)) / options.accumulate
            loss.backward()
        if options.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        optimizer.zero_grad()
        clock.end()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--plan", default="")
    parser.add_argument("--trainer", action="store_true")
    parser.add_argument("--clip", type=float, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    clock = Clock(options.device == "cuda")
    model = make_model(options)
    losses = (train_by_trainer if options.trainer else train_in_loop)(options, model, clock)
    print(json.dumps({"plan": bool(options.plan), "trainer": options.trainer, "clip": options.clip,
                      "accumulate": options.accumulate, "ms": statistics.median(clock.times[SETTLING:]),
                      "all": clock.times, "losses": losses,
                      "allocated_gib": torch.cuda.max_memory_allocated() / GIB if clock.on_gpu else 0,
                      "reserved_gib": torch.cuda.max_memory_reserved() / GIB if clock.on_gpu else 0}))


if __name__ == "__main__":
    main()
