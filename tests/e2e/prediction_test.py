"""What the planner works out of a step, from what the trial of none recorded, beside what trials measure.

python3 prediction_test.py MEMTUNE MEMTUNE-PREDICT [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

MEMTUNE, PREDICT = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
RECOMPUTES = ["none", "checkpoint:full", "checkpoint:op", "checkpoint:cheap", "checkpoint:every=2",
              "checkpoint:full,segment=2"]
MOVES = ["checkpoint:full,inputs=host", "offload:stream", "offload:sync", "offload:group",
         "checkpoint:cheap+offload:stream,fraction=0.4"]


def smaller(strategy):
    """The model's values are small."""
    return strategy + ",min=16KiB" if "offload" in strategy else strategy


class Prediction(unittest.TestCase):
    def predictions(self, *flags):
        folder = tempfile.TemporaryDirectory(prefix="memtune-prediction-")
        self.addCleanup(folder.cleanup)
        run = os.path.join(folder.name, "run")
        strategies = "; ".join(smaller(strategy) for strategy in RECOMPUTES + MOVES)
        subprocess.run([MEMTUNE, "sweep", "-q", "--model", "tiny", "--device", "cpu", "--rounds", "1", "--steps", "1",
                        "--strategy", strategies, "--out", run, *flags],
                       check=True, timeout=200, stdout=subprocess.DEVNULL)
        lines = subprocess.run([PREDICT, run], check=True, timeout=60, capture_output=True, text=True).stdout
        rows = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual(len(rows), len(RECOMPUTES + MOVES))
        return {row["strategy"]: row for row in rows}

    def check_all(self, rows):
        for strategy, row in rows.items():
            with self.subTest(strategy=strategy):
                for figure in ("recomputed_ops", "recomputed_bytes", "out_bytes"):
                    self.assertEqual(row[figure]["predicted"], row[figure]["measured"], figure)
                # What moves is on the device a little longer or shorter, as its copies run.
                if strategy in RECOMPUTES:
                    self.assertEqual(row["peak_bytes"]["predicted"], row["peak_bytes"]["measured"])
                self.assertLess(abs(row["peak_bytes"]["error"]), 0.01)
        self.assertGreater(rows["checkpoint:full"]["recomputed_ops"]["measured"], 0)
        self.assertGreater(rows[smaller("offload:stream")]["out_bytes"]["measured"], 0)

    def test_counts_and_peaks_are_those_that_trials_measure(self):
        self.check_all(self.predictions())

    def test_under_autocast_and_with_passes_too(self):
        self.check_all(self.predictions("--autocast", "bf16", "--accumulate", "2"))


if __name__ == "__main__":
    unittest.main()
