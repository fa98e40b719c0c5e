"""Compares memtune's presets with the engines that they emulate, by peak and step time on one GPU.

    python presets.py --out FOLDER                        # B4 T4096 of the decoder
    python presets.py --out FOLDER --preset offload:trl checkpoint:hf-offload
    python presets.py --out FOLDER --device cpu           # to check that it runs; engines need a GPU

eager.py and `memtune sweep` train the same weights on the same batch. A difference is the preset's figure minus the
engine's, in percent of the engine's. The exit code is 1 if one exceeds its goal: 2 % of the peak, 5 % of the step.
peers.py describes how the trainers' packages are found.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional

import strategies

HERE = Path(__file__).resolve().parent
PEAK_GOAL, STEP_GOAL = 2.0, 5.0  # percent

# For each preset the strategy of strategies.py that runs the engine.
PRESETS = {
    "none": "none", "checkpoint:full": "full",  # the difference of the two programs without an engine
    "offload:torchtune": "torchtune", "checkpoint:full+offload:torchtune": "torchtune+full",
    "offload:trl": "trl", "checkpoint:full+offload:trl": "trl+full", "offload:swift": "swift",
    "checkpoint:axolotl-hidden": "axolotl-hidden", "checkpoint:hf-offload": "hf-offload",
    "checkpoint:titan-full": "titan-full", "checkpoint:titan-selective": "titan-selective",
    "checkpoint:megatron-uniform,layers=2": "uniform-2"}


def run(command: List[str], options, may_fail: bool = False):
    print("$ " + " ".join(command), file=sys.stderr, flush=True)
    if not options.dry_run:
        subprocess.run(command, check=not may_fail, stdout=subprocess.DEVNULL)


def measure(options) -> None:
    folder = options.out
    size = [] if options.device == "cuda" else ["--model", "tiny", "--dtype", "fp32", "--device", "cpu"]
    eager = [sys.executable, str(HERE / "eager.py")]
    if not (folder / "model.pt").exists():
        run([*eager, "--export", str(folder / "model.pt"), *size], options)
    wanted = {"none": 0, **dict.fromkeys(options.preset)}
    run([options.memtune, "sweep", "--model", str(folder / "model.pt"),
         "--inputs", str(folder / "inputs.safetensors"), "--loss", "next_token",
         "--device", options.device, "--warmup", "4", "--steps", str(options.steps), "--rounds", str(options.rounds),
         "--out", str(folder / "run-presets"), "--json", str(folder / "presets.json"),
         *(word for preset in wanted for word in ("--strategy", preset))], options)
    run([*eager, "--weights", str(folder / "model.pt"), *size, "--steps", str(options.steps), "--json",
         str(folder / "engines.jsonl"), "--strategy", *(PRESETS[preset] for preset in options.preset)], options,
        may_fail=True)  # a failed engine is a line of the table


def difference(ours: float, theirs: float) -> float:
    return 100 * (ours / theirs - 1)


def row(preset: str, ours: Optional[Dict], theirs: Optional[Dict]) -> Dict:
    """Returns the cells, and whether the preset misses its goal."""
    cells = {"preset": preset, "engine": PRESETS[preset]}
    for who, trial in (("preset", ours), ("engine", theirs)):
        if not trial or trial["outcome"] != "ok":
            why = "not measured" if not trial else f"{trial['outcome']}: {trial['reason']}"
            return {"cells": [preset, PRESETS[preset], f"{who} {why}"], "missed": False, "compared": False}
    step = ours["step_ms"]["median"], theirs["step_ms"]["median"]
    cells |= {"engine ms": f"{step[1]:.1f}", "preset ms": f"{step[0]:.1f}", "step": f"{difference(*step):+.1f} %"}
    missed = abs(difference(*step)) > STEP_GOAL
    if theirs["peak_bytes"]:
        peak = ours["peak_bytes"]["allocated"], theirs["peak_bytes"]["allocated"]
        cells |= {"engine GiB": f"{peak[1] / 2**30:.2f}", "preset GiB": f"{peak[0] / 2**30:.2f}",
                  "peak": f"{difference(*peak):+.1f} %"}
        missed |= abs(difference(*peak)) > PEAK_GOAL
    return {"cells": [*cells.values(), "beyond the goal" if missed else "ok"], "missed": missed, "compared": True}


def table(folder: Path, presets: List[str]) -> int:
    answer, engines = folder / "presets.json", folder / "engines.jsonl"
    ours = {trial["strategy"]: trial for trial in json.loads(answer.read_text())["trials"]} if answer.exists() else {}
    lines = engines.read_text().splitlines() if engines.exists() else []
    theirs = {trial["strategy"]: trial for trial in map(json.loads, lines)}
    rows = [row(preset, ours.get(preset), theirs.get(PRESETS[preset])) for preset in presets]
    print("| preset | engine | engine ms | preset ms | step | engine GiB | preset GiB | peak | |\n" + "|---" * 9 + "|")
    for line in rows:
        print("| " + " | ".join(line["cells"]) + " |")
    compared = sum(line["compared"] for line in rows)
    missed = sum(line["missed"] for line in rows)
    print(f"\n{compared} of {len(rows)} compared, "
          f"{missed} beyond {PEAK_GOAL:g} % of the peak or {STEP_GOAL:g} % of the step")
    return missed


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts/memtune")), metavar="PROGRAM")
    p.add_argument("--out", required=True, type=Path, metavar="FOLDER")
    p.add_argument("--preset", nargs="+", choices=PRESETS, default=list(PRESETS), metavar="NAME",
                   help=f"of {', '.join(PRESETS)}; default: all")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 8)))
    p.add_argument("--rounds", type=int, default=1, help="of the presets")
    p.add_argument("--dry-run", action="store_true", help="say what would be run")
    p.add_argument("--table", action="store_true", help="only print the table of what lies in the folder")
    return p.parse_args()


def main() -> int:
    options = parse_arguments()
    assert all(engine in strategies.STRATEGIES for engine in PRESETS.values())
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.table:
        measure(options)
    if options.dry_run:
        return 0
    missed = table(options.out, options.preset)
    return 1 if missed and options.device == "cuda" else 0


if __name__ == "__main__":
    sys.exit(main())
