"""Shared by tests of measured commands: a private folder in which memtune profile runs a script.

The first argument of such tests is the path of memtune: python3 X_test.py MEMTUNE [unittest arguments].
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

if len(sys.argv) < 2:
    sys.exit(__doc__)
MEMTUNE = os.path.abspath(sys.argv.pop(1))
NIGHT = "MEMTUNE_NIGHT" in os.environ
at_night = unittest.skipUnless(NIGHT, "runs with MEMTUNE_NIGHT")


class Measured(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memtune-command-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "tmp").mkdir()
        self.environment = dict(os.environ, TMPDIR=str(self.folder / "tmp"), OMP_NUM_THREADS="1")

    def script(self, text):
        (self.folder / "train.py").write_text(text)
        return [sys.executable, "train.py", str(self.folder / "seen")]

    def seen(self, key, rank=""):
        lines = [json.loads(line) for line in (self.folder / f"seen{rank}").read_text().splitlines()]
        return [line[key] for line in lines if key in line]

    def private_folders(self):
        return list((self.folder / "tmp").glob("memtune-*"))

    def profile(self, *command, flags=("--timeout", "120"), code=0):
        """The whole answer. Its only trial is trials[0]."""
        done = subprocess.run([MEMTUNE, "profile", "-q", "--json", "-", *flags, "--", *command],
                              cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=200)
        log = self.folder / "memtune-profile/trials/1-command/log.txt"
        self.assertEqual(done.returncode, code,
                         done.stdout[-2000:] + done.stderr[-2000:] + (log.read_text()[-2000:] if log.exists() else ""))
        self.assertEqual(self.private_folders(), [])
        return json.loads(done.stdout)

    def trial(self, *command, **named):
        return self.profile(*command, **named)["trials"][0]

    def fed(self, trial):
        """Samples and tokens per step."""
        return tuple(round(trial[rate] * trial["step_ms"]["median"] / 1000, 6)
                     for rate in ("samples_per_s", "tokens_per_s"))

    def slices(self):
        """Slices of the command's trace, sorted by time."""
        run = str(self.folder / "memtune-profile")
        text = subprocess.run([MEMTUNE, "report", "-q", run, "--format", "perfetto", "-o", "-"], check=True, text=True,
                              capture_output=True).stdout
        return [each for each in json.loads(text)["traceEvents"] if each["ph"] == "X"]
