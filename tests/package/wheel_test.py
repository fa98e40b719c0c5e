"""Tests the wheel in fresh virtual environments: without PyTorch, and beside that of a Python which has it.

    python3 wheel_test.py WHEEL TORCH_PYTHON
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

WHEEL, TORCH_PYTHON = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "h200")
MOST_BYTES = 25_000_000
LOOP = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(40):
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def packages_of(python):
    return subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True,
                          capture_output=True, text=True).stdout.strip()


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="memtune-wheel-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = os.path.join(cls.folder.name, "environment")
        venv.create(cls.prefix, with_pip=True)
        cls.python = os.path.join(cls.prefix, "bin", "python")
        subprocess.run([cls.python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", WHEEL],
                       check=True)
        # Without a compiler, and without the build's cache.
        cls.environment = {"PATH": f"{cls.prefix}/bin", "HOME": cls.folder.name, "LC_ALL": "C.UTF-8"}

    def memtune(self, *arguments, code=0):
        done = subprocess.run([os.path.join(self.prefix, "bin", "memtune"), *arguments], capture_output=True, text=True,
                              env=self.environment, cwd=self.folder.name, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def with_torch(self):
        """Links the packages of the other Python into this one, as pip would put them."""
        theirs, ours = packages_of(TORCH_PYTHON), packages_of(self.python)
        for path in glob.glob(os.path.join(theirs, "*")):
            place = os.path.join(ours, os.path.basename(path))
            if not os.path.exists(place):
                os.symlink(path, place)
                self.addCleanup(os.unlink, place)

    def test_size_and_files(self):
        self.assertLess(os.path.getsize(WHEEL), MOST_BYTES)
        for name in ("share/man/man1/memtune.1", "share/bash-completion/completions/memtune",
                     "share/zsh/site-functions/_memtune", "share/fish/vendor_completions.d/memtune.fish"):
            self.assertTrue(os.path.exists(os.path.join(self.prefix, name)), name)
        with zipfile.ZipFile(WHEEL) as wheel:
            metadata = {name.rsplit("/", 1)[-1]: wheel.read(name).decode() for name in wheel.namelist()
                        if ".dist-info/" in name and not name.endswith("/")}
        self.assertIn("Root-Is-Purelib: false", metadata["WHEEL"])
        self.assertRegex(metadata["METADATA"], r"Requires-Dist: torch<2\.\d+,>=2\.\d+; extra == .engine.")
        for licence in ("LICENSE", "NOTICE", "THIRD_PARTY.md"):
            self.assertIn(licence, metadata)

    def test_without_pytorch(self):
        self.assertIn("Recommended", self.memtune("report", DATA).stdout)
        self.assertIn("gradient_checkpointing", self.memtune("export", DATA, "--trainer", "transformers").stdout)
        self.assertIn("--screenshot", self.memtune("view", "--help").stdout)
        said = "there is no PyTorch in this environment: pip install 'memtune[engine]'"
        self.assertIn(said, self.memtune("sweep", "--model", "tiny", "--device", "cpu", code=2).stderr)
        self.assertIn(said, self.memtune("doctor", code=1).stdout)

    def test_beside_pytorch(self):
        self.with_torch()
        release = subprocess.run([TORCH_PYTHON, "-c", "import torch; print(torch.__version__)"], check=True,
                                 capture_output=True, text=True).stdout.split("+")[0].strip()
        self.assertIn(release, self.memtune("doctor", "--device", "cpu").stdout)
        run = os.path.join(self.folder.name, "run")
        answer = os.path.join(self.folder.name, "answer.json")
        self.memtune("sweep", "--model", "tiny", "--device", "cpu", "--rounds", "1", "--strategy", "none", "--strategy",
                     "checkpoint:full", "--out", run, "--json", answer)
        with open(answer) as file:
            trials = json.load(file)["trials"]
        self.assertEqual([trial["outcome"] for trial in trials], ["ok", "ok"])
        self.assertTrue(trials[1]["gradients"]["equal"])
        self.memtune("plan", "--from", run)
        self.assertIn(f"PyTorch {release}", self.memtune("report", run).stdout)
        self.memtune("report", run, "--html", "--interactive")
        with open(os.path.join(run, "view.html"), encoding="utf-8") as file:
            self.assertIn("Permission is hereby granted", file.read())

    def test_a_command(self):
        self.with_torch()
        script = os.path.join(self.folder.name, "train.py")
        with open(script, "w") as file:
            file.write(LOOP)
        answer = os.path.join(self.folder.name, "command.json")
        self.memtune("profile", "--json", answer, "--", "python", script)
        with open(answer) as file:
            self.assertEqual(json.load(file)["trials"][0]["outcome"], "ok")

    def test_a_notebook(self):
        self.with_torch()
        cells = f"import memtune\nwith memtune.profile() as measured:\n    exec({LOOP!r})\nprint(measured.json['trials'][0]['outcome'])"
        done = subprocess.run([self.python, "-c", cells], capture_output=True, text=True, env=self.environment,
                              cwd=self.folder.name, timeout=300)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["ok"]), done.stderr)


if __name__ == "__main__":
    unittest.main()
