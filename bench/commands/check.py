"""Compares memtune's measurements of commands with the clocks of their scripts. With --hand it also runs the
recommended command without memtune. Prints a table for bench/results. Exit code 1 if a step differs by over 1 %, or a
peak by a byte.

    python check.py SWEEP_FOLDER SWEEP.json [--hand]
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

GIB = 1 << 30


def own_figures(log: str, warmup: int, steps=None):
    """Milliseconds of the measured steps on the slowest rank, and the highest peak in bytes. A clock's first interval
    ends with the second step."""
    clocks = [json.loads(text) for text in re.findall(r'{"own_clock_ms".*?}', log)]  # a progress bar may precede it
    if not clocks:
        return None
    times = [clock["own_clock_ms"][warmup - 1:][:steps] for clock in clocks]
    return max(times, key=statistics.median), max(clock["max_memory_allocated"] for clock in clocks)


def row(folder: Path, trial: dict, settings: dict) -> tuple:
    name, ms, peak = trial["strategy"], trial["step_ms"]["median"], trial["peak_bytes"]["allocated"]
    if trial["outcome"] != "ok":
        return f"| {name} | {trial['outcome']}: {trial['reason'][:90]} | | | | | |", True
    own = own_figures((folder / "log.txt").read_text(errors="replace"), settings["warmup"], settings["steps"])
    if not own:
        return f"| {name} | {ms:.2f} | no clock of its own | | | | |", False
    # The last interval of the script's clock includes the start of tracing.
    compared = settings["steps"] - 1
    own_ms, own_peak = statistics.median(own[0][:compared]), own[1]
    apart = statistics.median(trial["step_ms"]["samples"][:compared]) / own_ms - 1
    good = abs(apart) <= 0.01 and peak == own_peak
    transfer = trial["transfer"]
    copies = f"{transfer['out_bytes'] / GIB:.2f} out, {100 * transfer['hidden']:.0f} % hidden" if transfer["out_bytes"] >> 20 else ""
    return (f"| {name} | {ms:.2f} | {own_ms:.2f} | {100 * apart:+.2f} % | {peak / GIB:.2f} | "
            f"{'to the byte' if peak == own_peak else peak - own_peak} | {copies} |"), good


def by_hand(answer: dict, settings: dict):
    """Runs the recommended command without memtune, as a user would start it."""
    best = next(trial for trial in answer["trials"] if trial["recommended"])
    for trial in (answer["trials"][0], best):
        done = subprocess.run(trial["command"], text=True, capture_output=True)
        own = own_figures(done.stdout, settings["warmup"])
        if not own:
            sys.exit(f"{trial['strategy']} by hand ended with {done.returncode}: {done.stderr[-800:]}")
        print(f"by hand: {trial['strategy']} {statistics.median(own[0]):.2f} ms, {own[1] / GIB:.2f} GiB; "
              f"memtune told {trial['step_ms']['median']:.2f} ms, {trial['peak_bytes']['allocated'] / GIB:.2f} GiB", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--hand", action="store_true")
    flags = parser.parse_args()
    answer = json.loads(flags.answer.read_text())
    record = json.loads((flags.folder / "sweep.json").read_text())
    settings, folders = record["command"], {trial["strategy"]: trial["folder"] for trial in record["trials"]}
    print("| variant | ms a step | its own clock, but for the last | off by | peak GiB | beside PyTorch's | GiB of copies |\n|" + "---|" * 7)
    good = True
    for trial in answer["trials"]:
        text, fine = row(flags.folder / folders.get(trial["strategy"], ""), trial, settings)
        good = good and fine
        print(text)
    print(answer["recommendation"]["reason"])
    if flags.hand:
        by_hand(answer, settings)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
