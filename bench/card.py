"""Runs plans on a device of the budget's size: records the costs of a step once per model, plans from them for four
budgets, and runs each plan once under a cap of its budget. Budgets and caps are bytes on the device.

    python bench/card.py FOLDER                        # all models
    python bench/card.py FOLDER decoder lora --table   # prints the tables of an earlier run

FOLDER/NAME gets the model, record.json, predicted-N.json, plan-N.json, run-N.json, table.md, and plans.jsonl with a line
for each plan. The budgets divide the bytes between the least of any plan and those of `none`. The last columns compare
the run with the prediction.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import List

import budgets
from budgets import GIB, IMAGES, signed

HERE = Path(__file__).resolve().parent
SHARES = (0.85, 0.6, 0.35, 0.1)
LLAMA = "--batch 2 --seq 4096 --lora r=16,alpha=32"
CASES = {
    "decoder": budgets.Case(config="llama-3.2-1b", flags="--batch 2 --seq 4096 --dtype bf16"),
    "lora": budgets.Case(config="llama-3.2-1b", flags=f"{LLAMA} --autocast bf16"),
    "qlora": budgets.Case(config="llama-3.2-1b", flags=f"{LLAMA} --load-in 4bit --dtype bf16"),
    "moe": budgets.Case(("moe", 4, 4096, "next_token")),
    "gpt2": budgets.Case(config="gpt2", flags="--batch 8 --seq 1024 --autocast bf16"),
    "vit": budgets.Case(("vit", 128, 224, "cross_entropy")),
    "resnet101": budgets.Case(traced="resnet101", flags=IMAGES),
    "convnext_b": budgets.Case(traced="convnext_b", flags=IMAGES),
}
KEPT = ("outcome", "step_ms", "peak_bytes", "allocator", "allocator_retries")
COLUMNS = ("budget GiB", "ms", "reported ms", "error", "allocated GiB", "device GiB", "predicted GiB", "error", "allocator")


def memtune(options, log: Path, *arguments: str) -> None:
    with open(log, "a") as file:
        file.write(f"$ memtune {shlex.join(arguments)}\n")
        file.flush()
        subprocess.run([*shlex.split(options.memtune), *arguments], stdout=file, stderr=subprocess.STDOUT, check=False)


def read(path: Path) -> dict:
    if not path.exists():
        raise RuntimeError(f"there is no {path.name}:\n{(path.parent / 'log.txt').read_text()[-1500:]}")
    return json.loads(path.read_text())


def measure(name: str, folder: Path, options) -> None:
    case = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    model = budgets.export(case, folder, SimpleNamespace(device="cuda")) + case.flags.split()
    steps = ["--warmup", str(options.warmup), "--steps", str(options.steps), "-q"]
    log = folder / "log.txt"
    # A budget in which `none` fits: it records its costs and nothing else runs.
    memtune(options, log, "sweep", *model, *steps, "--rounds", "1", "--budget", "10TiB", "--out", str(folder / "run"),
            "--json", str(folder / "record.json"))
    none = read(folder / "record.json")["trials"][0]["peak_bytes"]["device"]
    memtune(options, log, "plan", "--from", str(folder / "run"), "--budget", "10TiB", "--json",
            str(folder / "none.json"))
    least = read(folder / "none.json")["least_bytes"]
    limits = [f"{int(least + share * (none - least)) // 2**20}MiB" for share in SHARES]
    with ThreadPoolExecutor() as plans:
        list(plans.map(lambda i: memtune(options, folder / f"plan-{i}.txt", "plan", "--from", str(folder / "run"),
                                         "--budget", limits[i], "--write", str(folder / f"plan-{i}.json"), "--json",
                                         str(folder / f"predicted-{i}.json")), range(len(limits))))
    for i, limit in enumerate(limits):
        memtune(options, log, "profile", *model, *steps, "--plan", str(folder / f"plan-{i}.json"), "--memory-cap", limit,
                "--out", str(folder / f"run-{i}"), "--json", str(folder / f"run-{i}.json"))


def error(measured: float, predicted: float) -> float:
    return measured / predicted - 1


def rows(folder: Path) -> List[dict]:
    found = []
    for i in range(len(SHARES)):
        rung = read(folder / f"predicted-{i}.json")["plans"][0]
        trial, predicted = {"outcome": "no plan"}, rung.get("predicted")
        if predicted:
            trial = read(folder / f"run-{i}.json")["trials"][0]
        found.append({"budget": rung["budget_bytes"], "trial": trial, "predicted": predicted})
        if trial["outcome"] == "ok" and predicted:
            found[-1]["ms_error"] = error(trial["step_ms"]["median"], predicted["step_ms"])
            found[-1]["bytes_error"] = error(trial["peak_bytes"]["device"], predicted["required_bytes"])
    return found


def line(row: dict) -> str:
    trial, predicted = row["trial"], row["predicted"] or {}
    cells = [f"{row['budget'] / GIB:.2f}"]
    if trial["outcome"] != "ok" or not predicted:
        cells += [trial["outcome"]] + ["-"] * (len(COLUMNS) - 2)
    else:
        peak = trial["peak_bytes"]
        cells += [f"{trial['step_ms']['median']:.1f}", f"{predicted['step_ms']:.1f}", signed(row["ms_error"]),
                  f"{peak['allocated'] / GIB:.2f}", f"{peak['device'] / GIB:.2f}",
                  f"{predicted['required_bytes'] / GIB:.2f}", signed(row["bytes_error"]), trial.get("allocator") or "-"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    everything = []
    for name in options.names or CASES:
        folder = options.folder / name
        try:
            if not options.table:
                measure(name, folder, options)
            found = rows(folder)
        except (RuntimeError, subprocess.CalledProcessError) as failure:  # the next model may work
            print(f"## {name}\n\n{failure}\n", flush=True)
            continue
        everything += found
        (folder / "plans.jsonl").write_text("".join(
            json.dumps({"model": name, "budget": row["budget"], "predicted": row["predicted"],
                        "trial": {key: row["trial"].get(key) for key in KEPT}}) + "\n" for row in found))
        lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", *map(line, found)]
        (folder / "table.md").write_text("\n".join(lines) + "\n")
        print(f"## {name}\n\n" + "\n".join(lines) + "\n", flush=True)
    for what in ("ms_error", "bytes_error"):
        errors = [abs(row[what]) for row in everything if what in row]
        if errors:
            print(f"{what}: median {signed(statistics.median(errors))}, worst {signed(max(errors))}, "
                  f"{len(errors)} of {len(everything)} ran")


if __name__ == "__main__":
    sys.exit(main())
