"""Shared by tests of saved runs: the command of a small run with saves, the files it left, and the same run
undisturbed."""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Dict, List

STEPS = 4  # of a whole run, with a save after each


def contents(folder: Path) -> Dict[str, bytes]:
    """All files, with hashes for those of states. Other files contain times and process ids."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest()
            if path.is_file() and "step-" in path.parent.name else b"" for path in folder.rglob("*")}


def published(folder: Path) -> List[int]:
    return sorted(int(path.parent.name[-8:]) for path in folder.glob("states/step-*/manifest.json"))


def save_modes(memtune: str) -> List[str]:
    said = subprocess.run([memtune, "run", "--save", "?"], capture_output=True, text=True).stderr
    return re.search("Known: (.*)", said).group(1).split(", ")


class SavedRuns(unittest.TestCase):
    """`whole` and `whole_loss`: folder and losses of an undisturbed run, in two parts."""

    MEMTUNE, MODEL = "", ["--model", "tiny"]

    @classmethod
    def setUpClass(cls):
        cls.root = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.root)
        folder, answer = cls.root / "whole", cls.root / "whole.json"
        for more in (("--steps", "3"), ("--resume", "--steps", str(STEPS), "--json", answer)):
            subprocess.run(cls.command("sync", folder, *more), check=True, capture_output=True)
        cls.whole, cls.whole_loss = contents(folder), json.loads(answer.read_text())["loss"]

    @classmethod
    def command(cls, mode: str, folder: Path, *more) -> List[str]:
        return [cls.MEMTUNE, "run", "--device", "cpu", *cls.MODEL, "--save", mode, "--save-every", "1",
                "--keep-last", "1", "--out", str(folder), *more]

    def check_goes_on(self, mode: str, folder: Path, where: str):
        """Checks that the run resumes from the newest published state, with the losses and files of the undisturbed
        run."""
        there, answer = published(folder), folder.with_suffix(".json")
        self.assertGreater(len(there), 0, where)
        done = subprocess.run(self.command(mode, folder, "--resume", "--steps", str(STEPS), "--json", answer),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{where}\n{done.stdout}{done.stderr}")
        training = json.loads(answer.read_text())
        self.assertEqual(training["first_step"], there[-1], where)
        self.assertEqual(training["loss"], self.whole_loss, where)
        left = contents(folder)
        self.assertEqual(sorted(left), sorted(self.whole), where)
        self.assertEqual([name for name in left if left[name] != self.whole[name]], [], where)
