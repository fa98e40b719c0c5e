#!/usr/bin/env python3
"""Compares the memory of 8 ranks with the prediction of memtune-more-ranks from a run on 2 and one on 4.

python3 more_ranks_test.py MEMTUNE MEMTUNE-MORE-RANKS
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

MEMTUNE, MORE_RANKS = (os.path.abspath(path) for path in sys.argv[1:3])
STRATEGIES = "none; checkpoint:full; checkpoint:op; offload:sync,min=16KiB"
ERROR = 0.001  # with more ranks, shards round up to more elements


def sweep(folder, ranks, *more):
    run = os.path.join(folder, str(ranks))
    subprocess.run([MEMTUNE, "sweep", "-q", "--model", "tiny", "--device", "cpu", "--rounds", "1", "--steps", "1", "--ranks",
                    str(ranks), "--strategy", STRATEGIES, "--out", run, *more], check=True, stdout=subprocess.DEVNULL)
    return run


def measurements(run):
    found = {}
    for name in glob.glob(os.path.join(run, "trials", "*", "measurement.json")):
        with open(name) as measurement, open(os.path.join(os.path.dirname(name), "plan.json")) as plan:
            found[json.load(plan)["strategy"]] = json.load(measurement)
    return found


def main():
    with tempfile.TemporaryDirectory(prefix="memtune-more-ranks-") as folder:
        few, more, most = (sweep(folder, ranks) for ranks in (2, 4, 8))
        told = subprocess.run([MORE_RANKS, few, more, "8"], check=True, capture_output=True, text=True).stdout
        rows = {row["strategy"]: row for row in map(json.loads, told.splitlines())}
        measured = measurements(most)
        assert len(measured) == 4 and set(rows) == set(measured), (set(rows), set(measured))
        for strategy, trial in measured.items():
            collectives = trial["communication"]
            received = 7 / 8 * (collectives["gathered_bytes"] + collectives["reduced_bytes"])
            for paper, so in ((rows[strategy]["peak_bytes"], trial["peak_bytes"]["allocated"]),
                              (rows[strategy]["ring"]["received_bytes"], received)):
                assert abs(paper - so) <= ERROR * so, (strategy, paper, so)
        alike = subprocess.run([MORE_RANKS, few, few, "8"], capture_output=True, text=True)
        assert alike.returncode == 2 and "two numbers of ranks" in alike.stderr, alike


if __name__ == "__main__":
    main()
