"""Tests memtune run on a disk that is really full: a small tmpfs for the states, and a limit on file sizes.

    python3 full_disk_test.py MEMTUNE [FullDisk] [FileLimit] [unittest arguments]

The run continues. It reports a failed save at once and at the end, removes its files and leaves older states unchanged.
Once there is space, the run resumes from them with the losses of an undisturbed run. MEMTUNE_ROOMS: number of further
amounts of free space to test (default 0), besides those at which one file or another is the first that does not fit.
Without it or MEMTUNE_NIGHT, few amounts are tested: no space, too little for the manifest, and enough. Of the save modes
one is stopped and gets space again, and one limit is set on files.
FullDisk needs a kernel that lets users mount a tmpfs in their own namespace. Without one it is skipped, and the exit
code is 77. Needs only the standard library.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from saved_runs import SavedRuns, contents, published, save_modes

PAGE = 4096
ROOMS = int(os.environ.get("MEMTUNE_ROOMS", "0"))
ALL = ROOMS > 0 or "MEMTUNE_NIGHT" in os.environ
DISK_BYTES, INODES = 16 << 20, 64
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
IN_NAMESPACE = "--in-namespace"


def pages(size: int) -> int:
    return -(-size // PAGE)


def some_modes(memtune):
    """The last save mode, which does the most at once; with ALL every one."""
    return save_modes(memtune) if ALL else save_modes(memtune)[-1:]


class Disk:
    """The tmpfs of `folder`/states, with files that fill it."""

    def __init__(self, folder: Path):
        self.root, self.states = folder.with_suffix(".disk"), folder / "states"
        self.root.mkdir()
        self.states.mkdir(parents=True)
        size = f"size={DISK_BYTES},nr_inodes={INODES}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", self.root], check=True)
        (self.root / "states").mkdir()
        subprocess.run(["mount", "--bind", self.root / "states", self.states], check=True)

    def unmount(self):
        for place in (self.states, self.root):
            subprocess.run(["umount", place], check=True)

    def leave_pages(self, count: int):
        with open(self.root / "filler", "wb") as file:
            free = os.statvfs(self.root).f_bavail
            os.posix_fallocate(file.fileno(), 0, max(1, (free - count)) * PAGE)

    def leave_inodes(self, count: int):
        for i in range(os.statvfs(self.root).f_ffree - count):
            (self.root / f"filler-{i}").touch()

    def make_room(self):
        for path in self.root.glob("filler*"):
            path.unlink()


class FailedSaves(SavedRuns):
    """Helpers for runs with failed saves."""

    def run_it(self, mode, folder, *more, code, **how):
        done = subprocess.run([*self.command(mode, folder, "--json", folder.with_suffix(".json")), *more],
                              capture_output=True, text=True, **how)
        self.assertIn(done.returncode, code, f"{mode} {more}\n{done.stdout}{done.stderr}")
        return done, json.loads(folder.with_suffix(".json").read_text())

    def begin(self, name: str, mode: str, has_disk: bool = True):
        """Starts a run: one step with its state, and its disk."""
        folder = self.root / f"{name}-{mode}"
        disk = Disk(folder) if has_disk else None
        if disk:
            self.addCleanup(disk.unmount)
        self.run_it(mode, folder, "--steps", "1", code=[0])
        return folder, disk

    def check_only_whole_states(self, folder: Path, where: str):
        """Checks that no file of an unpublished state is left."""
        for path in (folder / "states").iterdir():
            if path.name not in ("latest", "lock"):
                self.assertEqual(sorted(p.name for p in path.iterdir()),
                                 ["manifest.json", "shard-00001-model-00001-of-00001.safetensors"], where)

    def check_failures_are_told(self, done, training, where: str):
        failed = [save for save in training["saves"] if save.get("error")]
        self.assertEqual(len(training["saves"]), 2, where)
        self.assertEqual(done.returncode, 1 if failed else 0, where)
        for save in failed:
            self.assertIn(f"the save of step {save['step']} failed: {save['error']}\n", done.stderr, where)
        if failed:
            self.assertRegex(done.stderr, f"\nmemtune: {len(failed)} of 2 saves failed, the last that of step "
                                          f"{failed[-1]['step']}: [^\n]*\n\\Z", where)
        return [save["step"] for save in failed]

    def save_twice_more(self, mode, folder, where, **how):
        """Saves steps 2 and 3. Checks the files, and returns the steps whose save failed."""
        before = contents(folder / "states")
        done, training = self.run_it(mode, folder, "--resume", "--steps", "3", code=[0, 1], **how)
        self.assertEqual(training["loss"], self.whole_loss[:3], where)
        failed = self.check_failures_are_told(done, training, where)
        self.check_only_whole_states(folder, where)
        if not published(folder)[-1] > 1:
            self.assertEqual(contents(folder / "states"), before, where)
        return failed


@unittest.skipUnless(IN_NAMESPACE in sys.argv, "no namespace in which to mount a disk")
class FullDisk(FailedSaves):
    def try_with(self, name: str, mode: str, amount: int, fill):
        """Returns the steps whose save failed with that much of the disk left."""
        where = f"{mode}, {amount} {name} left"
        folder, disk = self.begin(f"{name}-{amount}", mode)
        fill(disk, amount)
        failed = self.save_twice_more(mode, folder, where)
        disk.make_room()
        self.check_goes_on(mode, folder, where)
        return failed

    def check_each(self, name: str, amounts, fill, modes):
        for mode in modes:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                outcomes = list(pool.map(lambda amount, mode=mode: self.try_with(name, mode, amount, fill), amounts))
            self.assertEqual(outcomes[0], [2, 3], f"{mode}: with no {name} left, both fail")
            self.assertEqual(outcomes[-1], [], f"{mode}: {amounts[-1]} {name} are enough")
            print(f"{mode}: {len(amounts)} amounts of {name}, {sum(map(bool, outcomes))} too small", file=sys.stderr)

    def test_saves_with_any_amount_of_free_space(self):
        manifest, data = [pages(path.stat().st_size) for path in sorted((self.root / "whole").glob("states/step-*/*"))]
        rooms = {0, data}
        if ALL:
            rooms |= {1, data // 2, data - 1, data + 1, data + manifest - 1, data + manifest, data + manifest + 1}
        rooms |= {i * data // ROOMS for i in range(ROOMS)}
        self.check_each("pages", [*sorted(rooms), 2 * (data + manifest)], Disk.leave_pages, save_modes(self.MEMTUNE))

    def test_saves_with_any_number_of_free_inodes(self):
        amounts = [*range(6), 20] if ALL else [0, 2, 20]
        self.check_each("inodes", amounts, Disk.leave_inodes, some_modes(self.MEMTUNE))

    def test_saves_work_again_once_there_is_space(self):
        for mode in some_modes(self.MEMTUNE):
            folder, disk = self.begin("while", mode)
            disk.leave_pages(1)
            with subprocess.Popen(self.command(mode, folder, "--resume", "--steps", "60"), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                line = process.stderr.readline()
                disk.make_room()
                said = process.stderr.read()
            self.assertRegex(line, "the save of step 2 failed: .*: No space left on device", mode)
            self.assertIn("step 60 is saved", said, mode)
            self.assertRegex(said, r"memtune: \d+ of 59 saves failed", mode)
            self.assertEqual(process.returncode, 1, mode)
            self.assertEqual(published(folder), [60], mode)
            self.check_only_whole_states(folder, mode)

    def test_a_stopped_run_reports_that_its_last_save_failed(self):
        for mode in some_modes(self.MEMTUNE):
            folder, disk = self.begin("stopped", mode)
            disk.leave_pages(1)
            process = subprocess.Popen(self.command(mode, folder, "--resume", "--steps", "100000"),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            said = process.communicate()[1]
            self.assertEqual(process.returncode, 1, mode)
            self.assertRegex(said, r"saves failed, the last that of step \d+: ", mode)
            self.assertNotIn("with --resume to continue", said, mode)
            disk.make_room()
            self.check_goes_on(mode, folder, mode)


class FileLimit(FailedSaves):
    def test_saves_under_a_limit_on_file_sizes(self):
        for mode in save_modes(self.MEMTUNE):
            for limit in (128 << 10, 1 << 20, 2 << 20) if ALL else (1 << 20,):
                where = f"{mode}, files of {limit} bytes"
                folder, _ = self.begin(f"limit-{limit}", mode, has_disk=False)
                failed = self.save_twice_more(mode, folder, where, preexec_fn=lambda limit=limit: resource.setrlimit(
                    resource.RLIMIT_FSIZE, (limit, limit)))
                self.assertEqual(failed, [2, 3], where)
                self.check_goes_on(mode, folder, where)


def main():
    if IN_NAMESPACE not in sys.argv:
        if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0:
            os.execvp("unshare", [*NAMESPACE, sys.executable, __file__, sys.argv[1], IN_NAMESPACE, *sys.argv[2:]])
    SavedRuns.MEMTUNE = sys.argv.pop(1)
    result = unittest.main(argv=[argument for argument in sys.argv if argument != IN_NAMESPACE], exit=False).result
    sys.exit(1 if not result.wasSuccessful() or not result.testsRun else 77 if result.skipped else 0)


if __name__ == "__main__":
    main()
