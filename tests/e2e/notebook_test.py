"""Tests memtune.profile() of the wheel's package: training in a process that goes on, as in a notebook.

    python3 notebook_test.py MEMTUNE PACKAGE SHIM [unittest arguments]       PACKAGE: cli/wheel/memtune

Needs torch.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

if len(sys.argv) < 4:
    sys.exit(__doc__)
MEMTUNE, PACKAGE, SHIM = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))

# The cells of a notebook. All objects are there before the block.
CELLS = """
import json, sys
import torch
from torch.utils.data import DataLoader
import memtune

torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()) for _ in range(3)])
optimizer = torch.optim.AdamW(model.parameters())
losses = []


def train(steps, fails=0):
    for step, rows in zip(range(steps), DataLoader(torch.randn(800, 16), batch_size=8)):
        loss = model(rows).square().mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        if step + 1 == fails:
            raise ValueError("no more")


def state():
    \"\"\"All that measuring puts into PyTorch, the model and the process.\"\"\"
    import os
    steps = sys.modules["torch.optim.optimizer"]
    hooks = [steps._global_optimizer_pre_hooks, steps._global_optimizer_post_hooks]
    hooks += [hooks for each in model.modules() for hooks in (each._forward_pre_hooks, each._forward_hooks)]
    loaders = torch.utils.data.dataloader._BaseDataLoaderIter
    return ([len(each) for each in hooks], torch.optim.Optimizer.__init__, torch.autograd.backward, loaders.__next__,
            torch.amp.GradScaler.step, torch.amp.GradScaler.scale, dict(os.environ), sys.meta_path[:], sys.excepthook)


before = state()
"""


class NotebookTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="memtune-notebook-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        package = self.folder / "site" / "memtune"
        shutil.copytree(PACKAGE, package)
        shutil.copytree(SHIM, package / "shim")
        (package / "bin").mkdir()
        (package / "bin" / "memtune").symlink_to(MEMTUNE)
        (self.folder / "tmp").mkdir()

    def run_cells(self, cells, code=0):
        done = subprocess.run([sys.executable, "-c", CELLS + cells], cwd=self.folder, text=True, capture_output=True,
                              env=dict(os.environ, PYTHONPATH=str(self.folder / "site"), TMPDIR=str(self.folder / "tmp"),
                                       OMP_NUM_THREADS="1"), timeout=200)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(list((self.folder / "tmp").glob("memtune-*")), [])
        return done

    def test_a_block_is_measured_and_what_comes_after_it_is_not(self):
        done = self.run_cells("""
with memtune.profile() as measured:
    train(40)
trial, = measured.json["trials"]
assert trial["outcome"] == "ok", trial
assert trial["loss"] == losses and len(losses) == 10, (trial["loss"], losses)  # 2 + 5 + 1 + 2
assert len(trial["step_ms"]["samples"]) == 5, trial
assert trial["memory"]["owners"] and trial["time_shares"]["data"] > 0, trial
assert round(trial["samples_per_s"] * trial["step_ms"]["median"] / 1000, 6) == 8, trial
assert state() == before
train(20)
assert len(losses) == 30

losses.clear()
again = memtune.profile(lambda: train(40), steps=3, warmup=1, out="again")
assert again.json["trials"][0]["loss"] == losses and len(losses) == 7
assert state() == before
print("<" + measured.report + ">", "<" + again.report + ">")
""")
        first, second = done.stdout.split("<")[1:]
        self.assertIn(first.split(">")[0], done.stdout.split("<")[0])
        for words in ("step ms", "peak MiB", "Time of a step: ", "Memory of step 10 by owner"):
            self.assertIn(words, first)
        self.assertTrue((self.folder / "memtune-profile/trials/1-command/trace.mttrace").exists())
        self.assertTrue((self.folder / "again/run.json").exists() or (self.folder / "again/trials").exists())

    def test_the_peak_is_that_of_the_block(self):
        self.run_cells("""
import resource
large = torch.ones(256 << 20)
del large
earlier = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
with memtune.profile() as measured:
    train(40)
peak = measured.json["trials"][0]["peak_bytes"]["allocated"]
assert 50 << 20 < peak < earlier - (900 << 20), (peak, earlier)
""")

    def test_an_exception_is_reported_and_passed_on(self):
        done = self.run_cells("""
try:
    with memtune.profile() as measured:
        train(40, fails=1)
except ValueError as error:
    assert str(error) == "no more"
else:
    raise AssertionError("it was swallowed")
trial, = measured.json["trials"]
assert trial["outcome"] == "error" and "ValueError: no more (after step 1 of 7)" in trial["reason"], trial
assert state() == before
""")
        self.assertIn("ValueError: no more", done.stdout)

    def test_a_block_that_ends_early_has_the_steps_that_it_took(self):
        self.run_cells("""
with memtune.profile() as measured:
    train(5)
answer = measured.json
assert answer["trials"][0]["outcome"] == "ok" and len(answer["trials"][0]["step_ms"]["samples"]) == 3, answer
assert any("after 3 of 5 measured steps" in note for note in answer["notes"]), answer["notes"]
with memtune.profile() as nothing:
    pass
reason = nothing.json["trials"][0]["reason"]
assert "no optimizer of torch.optim took a step" in reason, reason
""")

    def test_a_block_within_a_block_is_refused(self):
        done = self.run_cells("""
with memtune.profile():
    with memtune.profile():
        train(40)
""", code=1)
        self.assertIn("RuntimeError: memtune measures this process already", done.stderr)


if __name__ == "__main__":
    unittest.main()
