"""Finds the smallest device on which transformers trains a model with its own gradient checkpointing, and runs memtune's
checkpoint:full on a device of that size.

    python bench/smallest_cap.py FOLDER                # five models
    python bench/smallest_cap.py FOLDER llama qwen3

Both train in bfloat16 with fused AdamW, random tokens and the weights of the config alone. A device of a given size is
the GPU under set_per_process_memory_fraction, less what CUDA and its libraries take (measured after the same training
without a limit). Each trial is a process of its own. FOLDER gets a folder for each model, with its config and memtune's
answers, and smallest-cap.jsonl.
"""

import argparse
import json
import multiprocessing
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Optional

import torch
import transformers

HERE = Path(__file__).resolve().parent
GIB, MIB = 1 << 30, 1 << 20
STEP = 256 * MIB  # how near the smallest size is searched
TRIES = 6         # sizes of a device that memtune is given, each STEP larger
STEPS = 4


class Case(NamedTuple):
    batch: int
    length: int
    config: dict


CASES = {
    "llama": Case(2, 4096, json.loads((HERE / "configs" / "llama-3.2-1b" / "config.json").read_text())),
    "qwen3": Case(2, 4096, dict(model_type="qwen3", hidden_size=1024, num_hidden_layers=28, intermediate_size=3072,
                                num_attention_heads=16, num_key_value_heads=8, head_dim=128, vocab_size=151936,
                                tie_word_embeddings=True)),
    "gemma2": Case(2, 2048, dict(model_type="gemma2", hidden_size=2304, num_hidden_layers=8, intermediate_size=9216,
                                 num_attention_heads=8, num_key_value_heads=4, head_dim=256, vocab_size=256000)),
    "olmo2": Case(2, 4096, dict(model_type="olmo2", hidden_size=2048, num_hidden_layers=16, intermediate_size=8192,
                                num_attention_heads=16, vocab_size=100352)),
    "gpt2": Case(8, 1024, dict(model_type="gpt2", n_embd=1280, n_layer=36, n_head=20)),
}


def model_config(case: Case):
    fields = dict(case.config)
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    config.dtype = "bfloat16"
    return config


def train(case: Case, limit: Optional[int]) -> dict:
    """Reserved bytes are limited to `limit`. Returns the outcome and bytes."""
    total = torch.cuda.get_device_properties(0).total_memory
    if limit:
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
    found = {"outcome": "ok"}
    try:
        torch.manual_seed(0)
        with torch.device("cuda"):
            model = transformers.AutoModelForCausalLM.from_config(model_config(case), dtype=torch.bfloat16)
        model.train()
        model.config.use_cache = False
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        times = []
        for step in range(STEPS):
            tokens = torch.randint(0, model.config.vocab_size, (case.batch, case.length), device="cuda")
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        found["ms"] = sorted(times[1:])[(STEPS - 1) // 2]
    except torch.OutOfMemoryError as error:
        found = {"outcome": "oom", "reason": str(error).split(". ")[0]}
    free, total = torch.cuda.mem_get_info()
    reserved = torch.cuda.memory_reserved()
    return {**found, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
            "outside": total - free - reserved}


def forked(case: Case, limit: Optional[int]) -> dict:
    """train() in a process of its own, without the time to import the libraries."""
    context = multiprocessing.get_context("fork")
    answers, mine = context.Pipe(duplex=False)
    process = context.Process(target=lambda: mine.send(train(case, limit)))
    process.start()
    mine.close()
    try:
        return answers.recv()
    except EOFError:
        return {"outcome": "error"}
    finally:
        process.join()


def smallest(case: Case) -> dict:
    whole = forked(case, None)
    if whole["outcome"] != "ok":
        raise RuntimeError(f"does not run on the whole device: {whole}")
    good, bad, best = whole["reserved"], whole["allocated"] - STEP, whole
    while good - bad > STEP:
        middle = (good + bad) // 2
        tried = forked(case, middle)
        if tried["outcome"] == "ok":
            good, best = min(middle, tried["reserved"]), tried
        else:
            bad = middle
    return {"whole": whole, "cap": good + whole["outside"], "best": best}


def memtune(options, case: Case, folder: Path, cap: int) -> dict:
    answer = folder / f"memtune-{cap // MIB}.json"
    with open(folder / "log.txt", "a") as log:
        subprocess.run([*shlex.split(options.memtune), "profile", "--model", str(folder), "--dtype", "bf16", "--batch",
                        str(case.batch), "--seq", str(case.length), "--strategy", "checkpoint:full", "--memory-cap",
                        f"{cap}B", "--warmup", "2", "--steps", "4", "--out", str(folder / "run"), "--json", str(answer)],
                       stdout=log, stderr=subprocess.STDOUT, check=False)
    return json.loads(answer.read_text())["trials"][-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    options = parser.parse_args()
    failed = False
    for name in options.names or CASES:
        case, folder = CASES[name], options.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        model_config(case).save_pretrained(folder)
        found = {"model": name, **smallest(case), "memtune": []}
        for i in range(TRIES):
            trial = memtune(options, case, folder, found["cap"] + i * STEP)
            found["memtune"].append({key: trial.get(key) for key in ("outcome", "step_ms", "peak_bytes", "allocator")})
            if trial["outcome"] == "ok":
                break
        with open(options.folder / "smallest-cap.jsonl", "a") as file:
            file.write(json.dumps(found) + "\n")
        outcomes = [trial["outcome"] for trial in found["memtune"]]
        failed |= outcomes[0] != "ok"
        print(f"{name}: transformers {found['whole']['allocated'] / GIB:.2f} GiB allocated, "
              f"{found['whole']['reserved'] / GIB:.2f} reserved, {found['best']['ms']:.1f} ms; smallest device "
              f"{found['cap'] / GIB:.2f} GiB; memtune there and each 0.25 GiB more: {', '.join(outcomes)}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
