"""Tests bench/command_records.py on times of synthetic scripts, and the table that bench/figures.py makes of its lines.

    python3 command_records_test.py [unittest arguments]
"""

import json
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import command_records
import figures

STEPS, LAST = 8, command_records.WARMUP + 8
KINDS = {kind: 0.0 for kind in command_records.KINDS}


def span(step: float, work: float, passes: float, **ranges) -> dict:
    return {"step": step, "work": work, "passes": passes, "ranges": ranges}


def script(spans: list, profiled_ms: float) -> dict:
    profile = {"shares": {"forward": 0.3, "backward": 0.5, "rest": 0.2}, "step_ms": profiled_ms}
    return {"spans": spans, "losses": [1.0] * len(spans), "peaks": [], "classes": {}, "profile": profile}


def compared(profiled_ms: float, told: dict) -> dict:
    """A step of 100 ms: 10 for data, 30 forward, 50 backward, 5 for the update."""
    spans = [{"work": 1.0, "passes": 1.0, "ranges": {}}]  # the first has no step before it
    spans += [span(100, 90, 85, forward=30, backward=50) for _ in range(LAST + 2)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for kind in ("plain", "under"):
            (folder / f"{kind}-0.json").write_text(json.dumps(script(spans, profiled_ms)))
        trial = {"outcome": "ok", "time_shares": KINDS | told}
        (folder / "answer-0.json").write_text(json.dumps({"trials": [trial]}))
        (folder / "took.json").write_text("{}")
        options = types.SimpleNamespace(steps=STEPS, device="cuda")
        return command_records.compare("script", folder, options)


TOLD = {"data": 0.1, "forward": 0.31, "backward": 0.49, "update": 0.05, "rest": 0.05}


class CommandRecordsTest(unittest.TestCase):
    def test_own_shares_are_those_of_the_measured_steps(self):
        warmup = [span(1000, 1, 1)] * command_records.WARMUP
        runs = [{"spans": [*warmup, span(100, 90, 85, forward=30, backward=50), span(9, 9, 9)]},
                {"spans": [*warmup, span(300, 290, 285, forward=30, backward=50, evaluation=200), span(9, 9, 9)]}]
        found = command_records.own_shares(runs, command_records.WARMUP + 1)
        wanted = {"data": 20, "update": 10, "forward": 60, "backward": 100, "evaluation": 200, "rest": 10}
        self.assertEqual(found.keys(), wanted.keys())
        for kind, took in wanted.items():
            self.assertAlmostEqual(found[kind], took / 400, msg=kind)

    def test_shares_are_compared_with_the_scripts_events(self):
        found = compared(100, TOLD)
        self.assertAlmostEqual(found["shares"]["apart"], 0.01)
        self.assertTrue(found["checks"]["shares"])
        self.assertAlmostEqual(found["profiler"]["apart"], 0.15)
        self.assertEqual(found["profiler"]["worst"], "rest")
        self.assertFalse(found["checks"]["profiler"])
        found = compared(100, TOLD | {"data": 0.2, "forward": 0.21})
        self.assertEqual(found["shares"]["worst"], "data")
        self.assertFalse(found["checks"]["shares"])

    def test_the_profiler_is_no_check_if_it_slows_a_step_down(self):
        self.assertIn("profiler", compared(104, TOLD)["checks"])
        slowed = compared(106, TOLD)
        self.assertNotIn("profiler", slowed["checks"])
        self.assertIn("profiler", slowed["not_run"])
        self.assertIn("shares", slowed["checks"])
        self.assertIn("15.0 (rest)", command_records.line(slowed))

    def test_the_table_has_both_of_them(self):
        rest = {"owners": {"sum": 5, "allocator": 5}, "modules": {"apart": 0}, "paths": {"apart": 0}}
        one = compared(106, TOLD) | rest
        one["losses"]["plain_apart"] = 0
        old = one | {"shares": {**one["profiler"], "profiled_step_ms": 106}}
        del old["profiler"]
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "records.jsonl").write_text(json.dumps(one) + "\n" + json.dumps(old) + "\n")
            new_row, old_row = figures.commands(Path(place)).splitlines()[-2:]
        self.assertTrue(new_row.endswith(" 1.0 (forward) | 15.0 (rest) | 1.06 |"), new_row)
        self.assertTrue(old_row.endswith(" |  | 15.0 (rest) | 1.06 |"), old_row)


if __name__ == "__main__":
    unittest.main()
