"""Tests bench/oom_causes.py with a memtune that answers from a file, and scripts that need no GPU.

    python3 oom_causes_test.py [unittest arguments]
"""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import oom_causes
from oom_causes import Case

# Answers by the arguments of the command, and says what it was asked.
MEMTUNE = f"""#!{sys.executable}
import json
import sys

arguments = sys.argv[1:]
command = arguments[arguments.index("--") + 1:]
assert arguments[0] == "profile"
cause = command[command.index("--cause") + 1]
if cause == "none":
    sys.exit("it has no answer")
row = dict(outcome="device_oom", oom=dict(cause=cause, remedies=["pray", "a smaller batch"], step=4, phase="forward"))
if cause == "host_oom":
    row = dict(outcome=cause, reason="pinned memory")
if cause == "fragmentation":
    row = dict(outcome="ok", allocator="expandable_segments:True")
json.dump(dict(trials=[row]), open(arguments[arguments.index("--json") + 1], "w"))
print("Why:", cause)
"""
SCRIPT = """
import os
import sys

small = "--small" in sys.argv or os.environ.get("SMALL") == "1"
sys.exit(print("trained to the end") if small else "out of memory")
"""
FLAG, VARIABLE = {"smaller batch": "--small"}, {"smaller batch": "SMALL=1"}
CASES = {
    "flag": Case("script.py --cause leak", "leak states", FLAG),
    "variable": Case("script.py --cause states", "leak states", VARIABLE),
    "second": Case("script.py --cause leak", "leak", {"no such remedy": "--none"} | FLAG),
    "wrong": Case("script.py --cause leak", "loss", FLAG),
    "useless": Case("script.py --cause leak", "leak", {"pray": "--pray"} | FLAG),
    "unknown_remedy": Case("script.py --cause leak", "leak", {"a larger card": "--small"}),
    "of_host": Case("script.py --cause host_oom", "host_oom", {"pinned": "--small"}),
    "in_pieces": Case("script.py --cause fragmentation", "fragmentation", {"expandable_segments:True": "SMALL=1"}),
    "silent": Case("script.py --cause none", "leak", FLAG),
}


class OomCausesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "memtune").write_text(MEMTUNE)
        (self.folder / "memtune").chmod(0o755)
        (self.folder / "script.py").write_text(SCRIPT)

    def run_bench(self, *arguments):
        """Its exit code, its results by name, and what it printed."""
        text = io.StringIO()
        words = ["oom_causes.py", str(self.folder / "out"), "--memtune", str(self.folder / "memtune"), *arguments]
        with mock.patch.object(oom_causes, "CASES", CASES), mock.patch.object(oom_causes, "SCRIPTS", self.folder), \
                mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(text):
            code = oom_causes.main()
        lines = (self.folder / "out" / "results.jsonl").read_text().splitlines()
        return code, {each["name"]: each for each in map(json.loads, lines)}, text.getvalue()

    def test_causes_and_changes_are_judged(self):
        code, results, text = self.run_bench("--fix")
        self.assertEqual(code, 1)
        self.assertEqual(set(results), set(CASES))
        self.assertEqual({name for name, each in results.items() if not each["right"]}, {"wrong", "silent"})
        self.assertEqual({name: each["fixed"] for name, each in results.items()}, dict(
            flag=True, variable=True, second=True, wrong=True, useless=False, unknown_remedy=False, of_host=True,
            in_pieces=True, silent=False))
        self.assertEqual((results["second"]["remedy"], results["second"]["tried"], results["second"]["change"]),
                         ("pray", "a smaller batch", "--small"))
        self.assertEqual(results["silent"]["found"], "no answer, exit code 1")
        self.assertIn("7 of 9 causes are right; 6 of 9 train after the change", text)
        self.assertIn("| wrong | 4 forward | leak | loss | pray | `--small` | yes |", text)

    def test_without_changes_only_the_cause_counts(self):
        code, results, text = self.run_bench("flag", "useless")
        self.assertEqual((code, set(results)), (0, {"flag", "useless"}))
        self.assertNotIn("fixed", results["flag"])
        self.assertIn("2 of 2 causes are right\n", text)
        self.assertEqual(self.run_bench("flag", "--fix")[0], 0)

    def test_failures_of_others_come_from_a_list(self):
        (self.folder / "list.json").write_text(json.dumps([
            dict(script="script.py --cause leak", kind="keeps losses", cause="leak",
                 fix_command="python3 script.py --small"),
            dict(script="script.py --cause leak", kind="logits", cause="loss", fix_command=["python3", "script.py"])]))
        code, results, text = self.run_bench("--only-list", str(self.folder / "list.json"))
        self.assertEqual(code, 1)
        self.assertEqual({name: (each["right"], each["fixed"]) for name, each in results.items()},
                         {"1-keeps_losses": (True, True), "2-logits": (False, False)})
        self.assertEqual(text.count("Why: leak"), 2)


if __name__ == "__main__":
    unittest.main()
