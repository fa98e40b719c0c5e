"""memtune run, killed at system calls of a save: before and behind each of them, on every thread, in every way to save.

    python3 kill_test.py MEMTUNE KILL_AT_CALL [unittest arguments]

After each kill the newest state that was published loads, the losses go on with the bits of a run that was never
stopped, and behind the next save the run's folder holds what it does where nothing was killed, its states byte for
byte. MEMTUNE_KILLS: at how many of the calls that may change something (default 40, evenly over them; 0: at each call
of any kind), and at a quarter as many of those that write a larger state. Needs the standard library alone.
"""

import math
import os
import random
import shutil
import subprocess
import sys
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

from saved_runs import SavedRuns, save_modes

KILL_AT_CALL, KILLS = "", int(os.environ.get("MEMTUNE_KILLS", "40"))
LOOKS = {"access", "close", "fcntl", "fstat", "getdents64", "lstat", "newfstatat", "openat", "pread64", "read",
         "readlink", "readlinkat", "stat", "statfs", "statx"}  # and change nothing
WRITES = {"fallocate", "fsync", "ftruncate", "io_uring_enter", "pwrite64", "pwritev", "rename", "write"}
# The save of step 2 is killed, with what comes between the saves before and behind it.
BEGIN, END = "states/latest", "step-00000003"


class Series(NamedTuple):
    """One way to save, with io_uring or where the kernel has none."""

    mode: str
    without_io_uring: bool

    def __str__(self):
        return self.mode + (", no io_uring" if self.without_io_uring else "")


class Point(NamedTuple):
    series: Series
    number: int  # from 1


class Kills(SavedRuns):
    def trace(self, series: Series, folder: Path, number: int) -> List[str]:
        """The points that a run came past; with a number other than 0 it was killed at the last of them."""
        report = folder.with_suffix(".report")
        flags = ["--without-io-uring"] if series.without_io_uring else []
        done = subprocess.run([KILL_AT_CALL, report, BEGIN, END, str(number), *flags,
                               *self.command(series.mode, folder, "--steps", "3")], capture_output=True, text=True)
        points = report.read_text().splitlines()
        report.unlink()
        killed = 0 < number <= len(points)
        self.assertEqual(done.returncode, 1 if killed else 0, f"{series}, point {number}: {done.stdout}{done.stderr}")
        return points

    def kill_at(self, point: Point):
        """What it was killed before or behind, or None where this run had fewer points."""
        folder = self.root / f"{point.series.mode}-{int(point.series.without_io_uring)}-{point.number}"
        points = self.trace(point.series, folder, point.number)
        self.check_goes_on(point.series.mode, folder, f"{point.series}, point {point.number}, {points[-1]}")
        shutil.rmtree(folder)
        return (point.series, points[-1], points.count(points[-1])) if point.number <= len(points) else None

    def all_points(self) -> Dict[Series, List[str]]:
        """Without io_uring only where there is another way then."""
        found = {}
        for mode in save_modes(self.MEMTUNE):
            plain, other = Series(mode, False), Series(mode, True)
            found[plain] = self.trace(plain, self.root / "count", 0)
            shutil.rmtree(self.root / "count")
            if any("io_uring" in point for point in found[plain]):
                found[other] = self.trace(other, self.root / "count", 0)
                shutil.rmtree(self.root / "count")
        return found

    def kill_at_each(self, found: Dict[Series, List[str]], points: List[Point], kills: int):
        """At so many of the points, evenly over them; 0: at each."""
        stride = max(1.0, len(points) / (kills or len(points)))
        first = random.Random(int(os.environ.get("MEMTUNE_SEED", "1"))).random() * stride
        chosen = [points[int(first + i * stride)] for i in range(math.ceil((len(points) - first) / stride))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            killed = [at for at in pool.map(self.kill_at, chosen) if at]
        self.tell(found, chosen, killed)
        self.assertGreater(len(killed), 0.9 * len(chosen))

    def tell(self, found, chosen, killed):
        different = set(killed)
        print(f"killed at {len(killed)} of {sum(map(len, found.values()))} points, {len(different)} different ones; "
              f"{len(chosen) - len(killed)} were not met again", file=sys.stderr)
        for series, calls in found.items():
            mine = [at for at in different if at[0] == series]
            names = Counter(what.split()[1] for _, what, _ in mine)
            print(f"  {series}: {len(mine)} of {len(calls)}: " +
                  ", ".join(f"{name} {count}" for name, count in names.most_common()), file=sys.stderr)


def points_of(found: Dict[Series, List[str]], wanted: Callable[[str], bool]) -> List[Point]:
    return [Point(series, i + 1) for series, calls in found.items() for i, call in enumerate(calls)
            if wanted(call.split()[1])]


class OfASmallState(Kills):
    def test_at_the_system_calls_of_a_save(self):
        found = self.all_points()
        self.kill_at_each(found, points_of(found, lambda call: KILLS == 0 or call not in LOOKS), KILLS)


class OfAStateInSeveralPieces(Kills):
    MODEL = ["--model", "small", "--batch", "1", "--seq", "16"]

    def test_at_the_system_calls_that_write(self):
        found = self.all_points()
        self.kill_at_each(found, points_of(found, WRITES.__contains__), KILLS // 4)


if __name__ == "__main__":
    KILL_AT_CALL, SavedRuns.MEMTUNE = sys.argv.pop(2), sys.argv.pop(1)
    unittest.main()
