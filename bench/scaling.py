"""How memtune's engines grow with the sequence and the depth of a decoder: bytes moved against paper, time, host time.

    python scaling.py FOLDER                                       # needs a CUDA device; one table, in Markdown
    python scaling.py FOLDER --device cpu --width 64 --lengths 64 128 --blocks 4 8

One sweep of memtune for each depth, over all lengths for the first and over one for the others. On paper
a block's input is batch x T x width x 2 bytes, of which `checkpoint:full,inputs=host` moves one a block and
`offload:stream` everything that a block saves. What an engine costs the host is what it adds to a step so short that
the device waits for the host; it does not depend on T. The kernels that a recompute issues again are in it.
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
COLUMNS = ("blocks", "T", "strategy", "ms", "peak GiB", "moved MiB", "on paper", "ratio", "hidden", "engine's host ms",
           "of the step")
VOCABULARY, HEAD, LEAST = 8192, 64, 1 << 20  # memtune leaves smaller values on the device
MLP = 4  # times the width


def on_paper(strategy: str, blocks: int, length: int, width: int) -> int:
    """Bytes out of the device in a step of batch 1 in bf16."""
    hidden, heads = 2 * length * width, width // HEAD
    # Input, both norms' outputs, q, k, v and output of all heads, residual sum; gate, silu, up, product; log-sum-exp.
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
    return json.loads(result.read_text())["trials"]


def cells(trial: Dict[str, Any], blocks: int, short: Dict[str, float], options) -> List[str]:
    strategy, length = trial["strategy"], trial["sequence"]
    start = [str(blocks), str(length), strategy]
    if trial["outcome"] != "ok":
        return start + [trial["outcome"]] + ["-"] * (len(COLUMNS) - 4)
    ms, moved = trial["step_ms"]["median"], trial["transfer"]["out_bytes"]
    paper = on_paper(strategy, blocks, length, options.width)
    line = start + [f"{ms:.1f}", f"{trial['peak_bytes']['allocated'] / 2**30:.2f}"]
    line += [f"{moved / 2**20:.0f}", f"{paper / 2**20:.0f}", f"{moved / paper:.3f}" if paper else "-"]
    line += [f"{100 * trial['transfer']['hidden']:.0f} %" if moved else "-"]
    if strategy not in short or "none" not in short:
        return line + ["-", "-"]
    host = max(0.0, short[strategy] - short["none"])
    return line + [f"{host:.1f}", f"{100 * host / ms:.1f} %"]


def rows(blocks: int, trials: List[Dict[str, Any]], options) -> List[List[str]]:
    trials = sorted(trials, key=lambda t: (t["sequence"], STRATEGIES.index(t["strategy"])))
    measured = [t for t in trials if t["sequence"] == options.short and t["outcome"] == "ok"]
    short = {t["strategy"]: t["step_ms"]["median"] for t in measured}
    return [cells(trial, blocks, short, options) for trial in trials]


def print_row(row):
    print("| " + " | ".join(row) + " |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path, metavar="FOLDER")
    p.add_argument("--memtune", default=os.environ.get("MEMTUNE", HERE / "../scripts/memtune"))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--short", type=int, default=512, help="length at which the device waits for the host")
    p.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384, 32768])
    p.add_argument("--blocks", type=int, nargs="+", default=[16, 8, 32, 64], help="the first with every length")
    p.add_argument("--length", type=int, default=4096, help="of the other depths")
    options = p.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print_row(COLUMNS)
    print_row(["---"] * len(COLUMNS))
    for i, blocks in enumerate(options.blocks):
        lengths = [options.short, *(options.lengths if i == 0 else [options.length])]
        for row in rows(blocks, sweep(blocks, lengths, options), options):
            print_row(row)


if __name__ == "__main__":
    main()
