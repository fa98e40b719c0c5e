#!/usr/bin/env python3
"""Checks that a plan in the run folder of a command is read as data and written again. For Python's parser the exported
code is memtune's, however the file was forged.

    forged_plan_test.py MEMTUNE MEMTUNE_MADE_UP_RUN [unittest arguments]
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

NAME = "plan:13GiB"
DATA = """
PLAN: dict[str, Any] = {
    "name": "plan:13GiB", "path": "model.layers", "blocks": 3, "parameters": 1234,
    "input": "keep",
    "regions": "mlp mlp.up",
    "treatments": [
        {"blocks": [0, 1], "others": "recompute keep", "ops": {"host keep": "mlp.up/linear#0 " "/add#0"}},
        {"blocks": [2], "others": "keep keep", "ops": {}},
    ],
    "min_bytes": 1024, "stash_bytes": 4096, "prefetch_blocks": 1, "saved_min_bytes": 1024,
}
"""
STATES = DATA[:-2] + """    "states": {"parameters": [0, 2], "moments": [0], "outside": 1, "deferred": 0},
}
"""
CODE = "__import__('os').system('touch pwned')"
MARK = "    \"name\":"
# Ends a string that begins in the head and contains the template and the mark.
CLOSING = f"    # '''; from typing import Any; {CODE}; PLAN = {{\n"


def with_head(head):
    return lambda plan: head + plan


def with_data(line):
    return lambda plan: plan.replace(MARK, line + MARK, 1)


# Changes to an honest file. The result still has the same data.
FORGED = {
    "CR in the head": with_head(f"# measured\r{CODE}\n"),
    "FF in the head": with_head(f"# measured\f\n\f{CODE}\n"),
    "VT in the head": with_head(f"# measured\v{CODE}\n"),
    "U+2028 in the head": with_head(f"# measured\u2028{CODE}\n"),
    "NEL in the head": with_head(f"# measured\x85{CODE}\n"),
    "UTF-7": with_head(f"# coding: utf-7\n# +AAo-{CODE}\n"),
    "another encoding": with_head("# -*- coding: latin-1 -*-\n"),
    "a byte order mark": with_head("\ufeff"),
    "code before the first string": lambda plan: f"{CODE} or " + plan[plan.index('"""'):],
    "code before": with_head(f"{CODE}\n"),
    "code behind": lambda plan: plan + f"\n{CODE}\n",
    "code between": lambda plan: plan.replace("# --- end of data", f"{CODE}\n# --- end of data", 1),
    "other code": lambda plan: plan.replace("def apply(", f"{CODE}\n\n\ndef apply(", 1),
    "a default that calls": lambda plan: plan.replace("check: bool = True", f"check: bool = {CODE}", 1),
    "a head in a string": lambda plan: f"'''\n{plan}\n'''; {CODE}\n",
    "a head and data in strings": lambda plan: with_data(CLOSING)(f"# measured\r{CODE}; r'''\n" + plan),
    "PLAN twice": lambda plan: plan + f"\nPLAN: dict[str, Any] = {{\n    \"name\": {CODE}}}\n",
    "a comment in the data": with_data(f"    # {CODE}\n"),
}
# Changes after which the data are not only literals. Nothing is exported.
REFUSED = {
    "a call": with_data(f"    \"x\": {CODE},\n"),
    "CR in the data": with_data(f"    # \r{CODE},\n"),
    "FF in the data": with_data("    \f\n"),
    "a comprehension": with_data("    **{a: b for a, b in ()},\n"),
    "an f-string": lambda plan: plan.replace('"model.layers"', 'f"{' + CODE + '}"', 1),
    "three quotes": lambda plan: plan.replace('"model.layers"', "'''model.layers'''", 1),
    "no data": lambda plan: plan.replace("PLAN: dict", "plan: dict", 1),
    "half of the data": lambda plan: plan[:plan.index("\"treatments\"")],
}


class ForgedPlan(unittest.TestCase):
    data = DATA

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        subprocess.run([MADE_UP_RUN, "run"], cwd=self.folder, check=True)
        record = json.loads((self.folder / "run/sweep.json").read_text())
        variants = [{"name": trial["strategy"], "command": ["python", "train.py"], "file_name": "",
                     "planned": trial["strategy"] == NAME} for trial in record["trials"]]
        record["command"] = {"command": ["python", "train.py", "coding: utf-7"], "trainer": "", "variants": variants,
                             "skipped": [], "warmup": 2, "steps": 5, "memory_cap_bytes": 0, "native": "native",
                             "no_plan": "", "notes": [f"{NAME}: a note\ncoding: utf-7"]}
        record["model"] = "python train.py 'coding: utf-7'"
        (self.folder / "run/sweep.json").write_text(json.dumps(record))
        (trial,) = (trial["folder"] for trial in record["trials"] if trial["strategy"] == NAME)
        self.plan = self.folder / "run" / trial / "memtune_plan.py"
        self.plan.write_text(self.data)
        self.honest, said = self.export()
        self.assertIn("warning: ", said)  # the data alone are not such a file
        self.code = ast.dump(ast.parse(self.honest))

    def export(self, code=0):
        """Returns the file as bytes, and the messages."""
        done = subprocess.run([MEMTUNE, "export", "run", "--trainer", "python", "--strategy", NAME], cwd=self.folder,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr.decode()

    def test_an_honest_file_is_exported_byte_for_byte_without_a_warning(self):
        self.plan.write_bytes(self.honest)
        self.assertEqual(self.export()[0], self.honest)
        self.assertNotIn("warning", self.export()[1])
        for part in (b"def apply(", b"# note:      a note", b"# command:   python train.py", b"with that command"):
            self.assertIn(part, self.honest)

    def test_exported_data_equal_those_of_the_file(self):
        found = {}
        for node in ast.parse(self.honest).body:
            if isinstance(node, ast.AnnAssign):
                found[node.target.id] = ast.literal_eval(node.value)
        read = ast.literal_eval(self.data.partition("= ")[2])
        read["treatments"][0]["ops"] = {"host keep": "/add#0 mlp.up/linear#0"}
        self.assertEqual(found["PLAN"], read)

    def test_no_code_of_a_forged_file_is_exported(self):
        for what, forge in FORGED.items():
            with self.subTest(what):
                text = forge(self.honest.decode())
                self.assertNotEqual(text, self.honest.decode())
                self.plan.write_text(text, newline="")
                exported, said = self.export()
                self.assertEqual(ast.dump(ast.parse(exported)), self.code)
                self.assertEqual(exported, self.honest)
                if "coding" not in what and "UTF-7" not in what:
                    self.assertIn("is not what this memtune writes", said)

    def test_data_other_than_literals_are_refused(self):
        for what, forge in REFUSED.items():
            with self.subTest(what):
                self.plan.write_text(forge(self.honest.decode()), newline="")
                exported, said = self.export(code=2)
                self.assertEqual(exported, b"")
                self.assertIn("is no plan that this memtune reads", said)


class ForgedPlanOfStates(ForgedPlan):
    data = STATES

    def test_states_of_other_blocks_are_refused(self):
        self.plan.write_text(self.honest.decode().replace("[0, 2]", "[0, 3]", 1), newline="")
        self.assertIn("PLAN.states.parameters", self.export(code=2)[1])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    MEMTUNE, MADE_UP_RUN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
