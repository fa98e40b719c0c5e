"""Measures how memtune's engines scale with the sequence length and depth of a decoder: bytes offloaded compared with
the computed bytes, step time, host time.

    python scaling.py FOLDER                                       # needs a CUDA device; one table, in Markdown
    python scaling.py FOLDER --device cpu --width 64 --lengths 64 128 --blocks 4 8

Each depth is one sweep of memtune: the first over all lengths, the others over one. A block's input has batch x T x
width x 2 bytes. `checkpoint:full,inputs=host` offloads one input per block, `offload:stream` everything that a block
saves. `engine ms` is host time in the engines. It excludes ops that a recompute issues and includes the waits of an
engine.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import torch

from model import Llama

HERE = Path(__file__).parent
FULL, STREAM = "checkpoint:full,inputs=host", "offload:stream"
STRATEGIES = ("none", FULL, STREAM, "checkpoint:cheap")
COLUMNS = ("blocks", "T", "strategy", "ms", "peak GiB", "moved MiB", "on paper", "ratio", "hidden", "engine ms",
           "of the step")
VOCABULARY, HEAD, LEAST = 8192, 64, 1 << 20  # memtune keeps smaller activations on the device
MLP = 4  # times the width


def on_paper(strategy: str, blocks: int, length: int, width: int) -> int:
    """Computed bytes that a step offloads, for batch 1 in bf16."""
    hidden, heads = 2 * length * width, width // HEAD
    # Input, outputs of both norms, q, k, v and output of all heads, residual sum; gate, silu, up, product; log-sum-exp.
    saved = 8 * [hidden] + 4 * [MLP * hidden] + [4 * heads * length]
    if strategy == FULL:
        return blocks * hidden if hidden >= LEAST else 0
    if strategy == STREAM:
        return blocks * sum(s for s in saved if s >= LEAST) + (hidden if hidden >= LEAST else 0)  # and the head's input
    return 0


def export(path: Path, blocks: int, width: int, longest: int):
    torch.manual_seed(0)
    heads = width // HEAD
    model = Llama(VOCABULARY, width, blocks, heads, max(1, heads // 4), MLP * width, longest)
    torch.jit.script(model.to(torch.bfloat16).train()).save(str(path))


def sweep(blocks: int, lengths: List[int], options) -> List[Dict[str, Any]]:
    model, result = options.folder / f"blocks-{blocks}.pt", options.folder / f"blocks-{blocks}.json"
    export(model, blocks, options.width, max(lengths))
    command = [options.memtune, "sweep", "--model", model, "--input", f"tok:int64[1,{lengths[0]}]<{VOCABULARY}",
               "--seq", ",".join(map(str, lengths)), "--loss", "next_token", "--device", options.device,
               "--steps", "5", "--warmup", "2", "--out", options.folder / f"blocks-{blocks}", "--json", result, "-q"]
    for strategy in STRATEGIES:
        command += ["--strategy", strategy]
    subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, check=True)
    model.unlink()
    trials = json.loads(result.read_text())["trials"]
    return [{"sequence": lengths[0], **trial} for trial in trials]  # with one length, trials have no sequence field


def cells(trial: Dict[str, Any], blocks: int, options) -> List[str]:
    strategy, length = trial["strategy"], trial["sequence"]
    start = [str(blocks), str(length), strategy]
    if trial["outcome"] != "ok":
        return start + [trial["outcome"]] + ["-"] * (len(COLUMNS) - 4)
    ms, moved = trial["step_ms"]["median"], trial["transfer"]["out_bytes"]
    paper = on_paper(strategy, blocks, length, options.width)
    line = start + [f"{ms:.1f}", f"{trial['peak_bytes']['allocated'] / 2**30:.2f}"]
    line += [f"{moved / 2**20:.0f}", f"{paper / 2**20:.0f}", f"{moved / paper:.3f}" if paper else "-"]
    line += [f"{100 * trial['transfer']['hidden']:.0f} %" if moved else "-"]
    host = trial["engine_ms"]
    return line + [f"{host:.2f}", f"{100 * host / ms:.1f} %"]


def rows(blocks: int, trials: List[Dict[str, Any]], options) -> List[List[str]]:
    trials = sorted(trials, key=lambda t: (t["sequence"], STRATEGIES.index(t["strategy"])))
    return [cells(trial, blocks, options) for trial in trials]


def print_row(row):
    print("| " + " | ".join(row) + " |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path, metavar="FOLDER")
    p.add_argument("--memtune", default=os.environ.get("MEMTUNE", HERE / "../scripts/memtune"))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192, 16384, 32768])
    p.add_argument("--blocks", type=int, nargs="+", default=[16, 8, 32, 64], help="the first with every length")
    p.add_argument("--length", type=int, default=4096, help="of the other depths, beside the first")
    options = p.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print_row(COLUMNS)
    print_row(["---"] * len(COLUMNS))
    for i, blocks in enumerate(options.blocks):
        lengths = options.lengths if i == 0 else [options.lengths[0], options.length]
        for row in rows(blocks, sweep(blocks, lengths, options), options):
            print_row(row)


if __name__ == "__main__":
    main()
