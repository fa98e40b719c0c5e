"""Tests memtune run on the CPU, as a user runs it. After a kill at any moment it resumes with the bits of an
undisturbed run.

    python3 run_test.py MEMTUNE [unittest arguments]

MEMTUNE_KILLS: number of kills (default 4). Needs only the standard library.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

MEMTUNE = ""
STEPS = 90


class RunTest(unittest.TestCase):
    """Runs in a private folder, without a terminal."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, *arguments, steps=STEPS):
        command = [MEMTUNE, "run", "--device", "cpu", "--model", "tiny", "--steps", str(steps), *arguments]
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run_it(self, *arguments, code=0, steps=STEPS):
        process = self.start(*arguments, steps=steps)
        out, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, code, f"{arguments}\n{out}\n{err}")
        return out, err

    def losses(self, *arguments, steps=STEPS):
        self.run_it("--json", "answer.json", *arguments, steps=steps)
        return self.answer()["loss"]

    def answer(self):
        return json.loads((self.folder / "answer.json").read_text())

    def states(self, out):
        return sorted(path.name for path in (self.folder / out / "states").iterdir())


class Killed(RunTest):
    """Kills at random times. Three of four kills are between saves, after new states of the run and before its end.
    Parameters and optimizer states are on the device in one process and in host memory in the next."""

    SAVE_EVERY, MODES = 3, ("sync", "async", "overlapped")
    STRATEGIES = ("checkpoint:full", "checkpoint:full+states=host,outside=moments", "states=host,outside=host")

    def newest(self):
        try:
            return (self.folder / "parts/states/latest").read_text()
        except FileNotFoundError:
            return ""

    def await_new_state(self, process):
        """Waits until a new state is durable. Returns the time, or None if the run ended first."""
        before = self.newest()
        while self.newest() == before:
            if process.poll() is not None:
                return None
            time.sleep(0.001)
        return time.monotonic()

    def kill_between_saves(self, process, draw):
        """Kills after the second new state, within two save intervals. Returns the seconds to the first state, or None
        without a kill."""
        start = time.monotonic()
        first = self.await_new_state(process)
        second = first and self.await_new_state(process)
        if second:
            time.sleep(draw.uniform(0, 2 * (second - first)))
        self.kill(process)
        return first - start if second and process.returncode == -signal.SIGKILL else None

    def kill(self, process):
        process.kill()
        out, err = process.communicate()
        self.assertIn(process.returncode, (0, -signal.SIGKILL), f"{out}\n{err}")

    def test_resumes_with_the_same_bits_and_leaves_nothing(self):
        draw, kills = random.Random(int(os.environ.get("MEMTUNE_SEED", "1"))), int(os.environ.get("MEMTUNE_KILLS", "4"))
        steps = kills * 4 * self.SAVE_EVERY  # at most four saves until a kill
        whole = self.losses("--out", "whole", steps=steps)
        self.assertEqual(len(whole), steps)
        self.assertEqual(len(set(whole)), steps)
        parts = ("--out", "parts", "--save-every", str(self.SAVE_EVERY), "--keep-last", "3", "--resume")
        starts = []  # seconds to the first new state, for each run killed between saves
        for i in range(kills):
            process = self.start(*parts, "--strategy", self.STRATEGIES[i % 3], "--save", self.MODES[i % 3], steps=steps)
            if i % 4 < 3:
                starts += filter(None, [self.kill_between_saves(process, draw)])
                continue
            time.sleep(draw.uniform(0, max(starts, default=1)))
            self.kill(process)
        self.assertGreaterEqual(2 * len(starts), kills, "too few kills fell between saves")
        self.assertEqual(self.losses(*parts, steps=steps), whole)
        last = [f"step-{steps - behind * self.SAVE_EVERY:08}" for behind in (2, 1, 0)]
        self.assertEqual(self.states("parts"), ["latest", "lock", *last])
        for state in last:
            self.assertEqual(len(list((self.folder / "parts/states" / state).iterdir())), 2)
        self.assertEqual(self.newest(), f"{last[-1]}\n")


class Kept(RunTest):
    def test_keep_last_applies_to_a_run_with_no_steps_left(self):
        self.run_it("--save-every", "3", steps=9)
        self.run_it("--save-every", "3", "--keep-last", "2", "--resume", steps=9)
        self.assertEqual(self.states("memtune-training"), ["latest", "lock", "step-00000006", "step-00000009"])


class Stopped(RunTest):
    def test_sigterm_saves_and_the_run_resumes_from_there(self):
        whole = self.losses("--out", "whole")
        process = self.start("--out", "parts", "--save-every", "40", "--json", "answer.json", steps=100000)
        while not (self.folder / "parts/states/latest").exists():
            self.assertIsNone(process.poll(), "it ended before its first save")
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("run the same command with --resume to continue", err)
        answer = self.answer()
        done = len(answer["loss"])
        self.assertTrue(answer["stopped"])
        self.assertEqual((self.folder / "parts/states/latest").read_text(), f"step-{done:08}\n")
        self.assertEqual(self.losses("--out", "parts", "--resume", "--save-every", "40", steps=done), answer["loss"])
        self.assertEqual(answer["loss"][:STEPS], whole[:done])

    def test_the_death_of_the_training_process_is_reported(self):
        process = self.start("--out", "parts", "--save-every", "10", steps=100000)
        while not (self.folder / "parts/states/latest").exists():
            self.assertIsNone(process.poll(), "it ended before its first save")
            time.sleep(0.002)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertRegex(err, "SIGKILL from outside in phase (train|saved)")


class Answers(RunTest):
    def test_losses_and_saves_as_json_and_as_a_summary(self):
        out, err = self.run_it("--save-every", "4", "--json", "answer.json", steps=10)
        answer = self.answer()
        self.assertEqual([save["step"] for save in answer["saves"]], [4, 8])
        for save in answer["saves"]:
            self.assertGreater(save["bytes"], 1_000_000)
            self.assertGreater(save["blocked_ms"], 0)
            self.assertGreater(save["durable_ms"], 0)
        self.assertEqual(len(answer["loss"]), 10)
        self.assertRegex(out, r"10 steps on CPU.*: loss 5\.\d+ to 5\.\d+, .* a step, \d+ tokens/s; 2 saves, .* each")
        self.assertEqual(len(re.findall(r"step [48] is saved: ", err)), 2)
        self.run_it("--resume", "4", "--json", "-", steps=6)
        self.assertEqual(self.states("memtune-training"), ["latest", "lock", "step-00000004"])

    def test_contradictory_arguments_and_damaged_states_are_refused(self):
        self.run_it("--save-every", "2", steps=4)
        for said, *arguments in (("has saved states up to step 4; continue with --resume",),
                                 ("there is no saved state of step 3", "--resume", "3"),
                                 ("another training: --optimizer adamw there and sgd here", "--resume", "--optimizer", "sgd"),
                                 ("exclude each other", "--plan", "x.json", "--strategy", "none"),
                                 ("--save-every", "--save-every", "often")):
            out, err = self.run_it(*arguments, code=2)
            self.assertEqual(out, "")
            self.assertRegex(err, r"\Amemtune: [^\n]*\n\Z")
            self.assertIn(said, err)
        data = next((self.folder / "memtune-training/states/step-00000004").glob("*.safetensors"))
        data.write_bytes(data.read_bytes()[:-1])
        _, err = self.run_it("--resume", code=2)
        self.assertIn("the newest that is whole is of step 2", err)

    def test_a_failed_save_is_also_reported_at_the_end(self):
        (self.folder / "memtune-training/states/step-00000004").mkdir(parents=True)
        (self.folder / "memtune-training/states/step-00000004/mine").write_text("mine")
        _, err = self.run_it("--save-every", "2", "--json", "answer.json", steps=6, code=1)
        self.assertIn("the save of step 4 failed: ", err)
        self.assertIn("memtune: 1 of 3 saves failed, the last that of step 4: ", err)
        self.assertIn("error", self.answer()["saves"][1])
        self.assertEqual(self.states("memtune-training"),
                         ["latest", "lock", "step-00000002", "step-00000004", "step-00000006"])


if __name__ == "__main__":
    MEMTUNE = sys.argv.pop(1)
    unittest.main()
