"""Tests memtune run with saves on several ranks: one rank killed at system calls of a save, all killed at any time,
stopped by SIGTERM, and resumed on other numbers of ranks.

    python3 rank_saves_test.py MEMTUNE KILL_AT_CALL [unittest arguments]

After each kill the newest published state loads, and the losses continue with the bits of an undisturbed run.
MEMTUNE_KILLS: number of kills, evenly spread over the calls of each rank and save mode (default 4; 0: at every call).
Without MEMTUNE_NIGHT they are in one save mode, fewer kills are at any time, and a run resumes on fewer numbers of ranks.
Needs only the standard library.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import List, NamedTuple

from saved_runs import STEPS, SavedRuns, published, save_modes

KILL_AT_CALL, KILLS = "", int(os.environ.get("MEMTUNE_KILLS", "4"))
NIGHT = "MEMTUNE_NIGHT" in os.environ
RANKS = 2
# On the first rank from the publication of step 1 to the save of step 3, on the other from its shard of step 2 to that
# of step 3. So an earlier state always exists.
WINDOWS = (("states/latest", "step-00000003"), ("step-00000002/shard-00002.json", "step-00000003/shard-00002.json"))


class Series(NamedTuple):
    mode: str
    rank: int


class RankSaves(SavedRuns):
    MODEL = ["--model", "tiny", "--ranks", str(RANKS)]

    def trace(self, series: Series, folder, number: int) -> List[str]:
        """Returns the points that the rank reached. With a number other than 0 it was killed at the last one."""
        report = folder.with_suffix(".report")
        done = subprocess.run([KILL_AT_CALL, report, *WINDOWS[series.rank], str(number),
                               *self.command(series.mode, folder, "--steps", str(STEPS))], capture_output=True, text=True)
        points = report.read_text().splitlines()
        report.unlink()
        killed = 0 < number <= len(points)
        self.assertEqual(done.returncode, 1 if killed else 0, f"{series}, point {number}: {done.stdout}{done.stderr}")
        if killed:
            self.assertIn(f"rank {series.rank}", done.stderr)
        return points

    def kill_at(self, series: Series, number: int) -> bool:
        folder = self.root / f"{series.mode}-{series.rank}-{number}"
        points = self.trace(series, folder, number)
        self.check_goes_on(series.mode, folder, f"{series}, point {number}, {points[-1]}")
        shutil.rmtree(folder)
        return number <= len(points)

    def test_a_rank_killed_in_a_save_leaves_the_previous_or_the_complete_state(self):
        modes = save_modes(self.MEMTUNE)
        series = [Series(mode, rank) for mode in (modes if NIGHT or KILLS == 0 else modes[-1:]) for rank in range(RANKS)]
        points = []
        for each in series:
            count = len(self.trace(each, self.root / "count", 0))
            shutil.rmtree(self.root / "count")
            self.assertGreater(count, 10, each)
            wanted = count if KILLS == 0 else max(1, KILLS // len(series))
            points += [(each, 1 + (2 * i + 1) * count // (2 * wanted)) for i in range(wanted)]
        with ThreadPoolExecutor(2) as pool:
            killed = sum(pool.map(lambda point: self.kill_at(*point), points))
        self.assertGreaterEqual(killed, max(1, len(points) // 3))  # a busy machine saves with fewer calls than were counted
        print(f"{killed} kills of {len(points)}", file=sys.stderr)

    def wait_for_a_state(self, process, folder):
        while not published(folder):
            self.assertIsNone(process.poll(), "it ended before its first save")
            time.sleep(0.01)

    def test_a_run_killed_at_any_moment_resumes_with_the_same_bits(self):
        folder = self.root / "any"
        for seconds in (1.0, 1.3, 1.6, 1.9) if NIGHT else (1.6, 1.9):
            process = subprocess.Popen(self.command("overlapped", folder, "--steps", "100000", "--resume"),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(seconds)
            self.wait_for_a_state(process, folder)  # the first may come later
            process.kill()
            process.wait()
        steps = str(published(folder)[-1] + 3)
        losses = []
        for out, more in ((folder, ["--resume"]), (self.root / "once", [])):
            answer = self.root / "any.json"
            subprocess.run(self.command("sync", out, "--steps", steps, "--json", answer, *more), check=True,
                           capture_output=True)
            losses.append(json.loads(answer.read_text())["loss"])
        self.assertEqual(*losses)

    def test_sigterm_saves_on_all_ranks_at_one_step(self):
        folder = self.root / "stopped"
        command = self.command("async", folder, "--steps", "100000")
        command[command.index("--save-every") + 1] = "20"
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.wait_for_a_state(process, folder)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        steps = published(folder)
        self.assertEqual(len(steps), 1)
        self.assertEqual(len(list((folder / f"states/step-{steps[0]:08}").iterdir())), RANKS + 1)

    def test_any_number_of_ranks_resumes(self):
        for ranks in (1, 3, 4) if NIGHT else (1, 3):
            folder, answer = self.root / f"on-{ranks}", self.root / f"on-{ranks}.json"
            shutil.copytree(self.root / "whole", folder)
            command = self.command("overlapped", folder, "--resume", "--steps", str(STEPS + 3), "--json", answer)
            command[command.index("--ranks") + 1] = str(ranks)
            subprocess.run(command, check=True, capture_output=True)
            training = json.loads(answer.read_text())
            self.assertEqual(training["first_step"], STEPS)
            self.assertEqual(training["loss"][:STEPS], self.whole_loss)
            self.assertEqual([save.get("error", "") for save in training["saves"]], [""] * 3)
            self.assertLess(training["loss"][-1], training["loss"][STEPS])
            names = [path.name for path in (folder / f"states/step-{STEPS + 3:08}").iterdir()]
            self.assertEqual(len(names), ranks + 1, names)


if __name__ == "__main__":
    SavedRuns.MEMTUNE, KILL_AT_CALL = sys.argv[1], sys.argv[2]
    del SavedRuns
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
