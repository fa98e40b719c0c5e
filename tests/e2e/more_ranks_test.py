#!/usr/bin/env python3
"""Compares the memory of 4 and 8 ranks with predictions from one run on 2: of strategies, and of plans that `memtune
plan --ranks` makes.

Without MEMTUNE_NIGHT only 4 ranks run.

python3 more_ranks_test.py MEMTUNE MEMTUNE-PREDICT
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

MEMTUNE, PREDICT = (os.path.abspath(path) for path in sys.argv[1:3])
STRATEGIES = "none; checkpoint:full; checkpoint:op; offload:sync,min=16KiB"
SHARES = (0.9, 0.7)  # budgets of plans, between the least that a plan takes and none
ERROR = 0.001  # with more ranks, shards round up to more elements


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def sweep(folder, ranks, strategies=STRATEGIES, plans=()):
    run = os.path.join(folder, str(ranks))
    output(MEMTUNE, "sweep", "-q", "--model", "tiny", "--device", "cpu", "--rounds", "1", "--steps", "1", "--ranks",
           str(ranks), "--strategy", strategies, "--out", run, *(word for plan in plans for word in ("--plan", plan)))
    return run


def plan(run, ranks, folder):
    """Writes plans for as many ranks to files of their names. Returns their predicted peaks by name."""
    def answer(*more):
        return json.loads(output(MEMTUNE, "plan", "--from", run, "--ranks", str(ranks), "--json", "-", *more))

    whole = answer()
    assert whole["ranks"] == {"recorded": 2, "planned_for": ranks}, whole["ranks"]
    least, most = whole["least_bytes"], whole["plans"][0]["predicted"]["peak_bytes"]
    peaks = {}
    for share in SHARES:
        budget, name = f"{int(least + share * (most - least))}B", f"plan-{ranks}-{share}"
        written = answer("--budget", budget, "--write", os.path.join(folder, name + ".json"))
        peaks[name] = written["plans"][0]["predicted"]["peak_bytes"]
    return peaks


def check(run, ranks, recorded, peaks):
    costs, = glob.glob(os.path.join(recorded, "trials", "*", "costs.json"))
    lines = output(PREDICT, run, costs, str(ranks)).splitlines()
    rows = {row["strategy"]: row["peak_bytes"] for row in map(json.loads, lines)}
    assert len(rows) == 4 + len(peaks) and set(peaks) < set(rows), (set(peaks), set(rows))
    for strategy, peak in rows.items():
        predicted = peaks.get(strategy, peak["predicted"])
        error = predicted / peak["measured"] - 1
        print(f"{ranks} ranks, {strategy}: predicted {predicted:.0f}, measured {peak['measured']:.0f}, {error:+.2%}")
        assert abs(error) <= ERROR, (ranks, strategy, peak)


def main():
    with tempfile.TemporaryDirectory(prefix="memtune-more-ranks-") as folder:
        recorded = sweep(folder, 2, "none")
        for ranks in (4, 8) if "MEMTUNE_NIGHT" in os.environ else (4,):
            peaks = plan(recorded, ranks, folder)
            files = [os.path.join(folder, name + ".json") for name in peaks]
            check(sweep(folder, ranks, plans=files), ranks, recorded, peaks)


if __name__ == "__main__":
    main()
