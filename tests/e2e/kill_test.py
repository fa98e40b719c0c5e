"""Kills memtune run at the system calls of a save: before and after each call, on every thread, in every save mode.

    python3 kill_test.py MEMTUNE KILL_AT_CALL [unittest arguments]

After each kill the newest published state loads, and the losses continue with the bits of an undisturbed run. After the
next save the run's folder is that of an undisturbed run, and its states are equal byte for byte. MEMTUNE_KILLS: number
of kills, evenly spread over the calls that may change something (default 8; 0: at every call of any kind). A quarter
as many kills hit the calls that write a larger state. Needs only the standard library.
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

KILL_AT_CALL, KILLS = "", int(os.environ.get("MEMTUNE_KILLS", "8"))
LOOKS = {"access", "close", "fcntl", "fstat", "getdents64", "lstat", "newfstatat", "openat", "pread64", "read",
         "readlink", "readlinkat", "stat", "statfs", "statx"}  # calls that change nothing
WRITES = {"fallocate", "fsync", "ftruncate", "io_uring_enter", "pwrite64", "pwritev", "rename", "write"}
# Kills happen between the saves of step 1 and step 3.
BEGIN, END = "states/latest", "step-00000003"


class Series(NamedTuple):
    """A save mode, with io_uring or on a kernel without it."""

    mode: str
    without_io_uring: bool

    def __str__(self):
        return self.mode + (", no io_uring" if self.without_io_uring else "")


class Point(NamedTuple):
    series: Series
    number: int  # from 1


class Kills(SavedRuns):
    def trace(self, series: Series, folder: Path, number: int) -> List[str]:
        """Returns the points that a run reached. With a number other than 0 it was killed at the last one."""
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
        """Returns the call before or after which it was killed, or None if this run had fewer points."""
        folder = self.root / f"{point.series.mode}-{int(point.series.without_io_uring)}-{point.number}"
        points = self.trace(point.series, folder, point.number)
        self.check_goes_on(point.series.mode, folder, f"{point.series}, point {point.number}, {points[-1]}")
        shutil.rmtree(folder)
        return (point.series, points[-1], points.count(points[-1])) if point.number <= len(points) else None

    def all_points(self) -> Dict[Series, List[str]]:
        """All points of each series. Modes that use io_uring have a second series without it."""
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
        """Kills at `kills` of the points, evenly spread; 0: at every point."""
        stride = max(1.0, len(points) / (kills or len(points)))
        first = random.Random(int(os.environ.get("MEMTUNE_SEED", "1"))).random() * stride
        chosen = [points[int(first + i * stride)] for i in range(math.ceil((len(points) - first) / stride))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            killed = [at for at in pool.map(self.kill_at, chosen) if at]
        self.tell(found, chosen, killed)
        self.assertGreater(len(killed), max(0, 0.9 * len(chosen) - 1))

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
    def test_kill_at_the_system_calls_of_a_save(self):
        found = self.all_points()
        self.kill_at_each(found, points_of(found, lambda call: KILLS == 0 or call not in LOOKS), KILLS)


class OfAStateInSeveralPieces(Kills):
    MODEL = ["--model", "small", "--batch", "1", "--seq", "16"]

    def test_kill_at_the_system_calls_that_write(self):
        found = self.all_points()
        self.kill_at_each(found, points_of(found, WRITES.__contains__), KILLS // 4)


if __name__ == "__main__":
    KILL_AT_CALL, SavedRuns.MEMTUNE = sys.argv.pop(2), sys.argv.pop(1)
    unittest.main()
