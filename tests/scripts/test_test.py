"""Tests the summaries of scripts/test and scripts/ci, with fake builds. A check that did not run must not count as passed.

    python3 test_test.py [unittest arguments]

Needs only ctest and the standard library.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
LIB = """
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=$root/cache
say() { printf 'memtune: %s\\n' "$*" >&2; }
die() { say "$@"; exit 1; }
has() { command -v "$1" >/dev/null; }
build() { :; }
build_folder() { echo "$root/build/$1"; }
install_for_tests() { :; }
"""
PASSES, SKIPPED = "exit 0", "exit 77"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "MEMTUNE_RESULT"}  # that of the tests
CORE, SMOKE, TORCH = "core", "smoke", "torch"


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for folder in ("core", "cli", "gui", "tests", "bench"):
            (self.root / folder).mkdir()
        self.write("scripts/lib.sh", LIB)
        self.program("scripts/tidy", "echo 'clang-tidy: 2 sources clean' >&2")
        self.program("bin/clang-format", PASSES)
        self.write("tests/fuzz/run.py", "")
        self.write("build/tidy/compile_commands.json", "[]")
        self.program("build/asan/bin/memtune-fuzz", PASSES)
        for name in ("test", "ci", "checks.sh"):
            shutil.copy(SCRIPTS / name, self.root / "scripts" / name)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.add_tests("release", {"a: one": PASSES})
        for preset in ("asan", "tsan"):
            self.add_tests(preset, {"a: one": PASSES})
        self.add_tests("ci", {"a: one": PASSES, "smoke": (PASSES, SMOKE), "torch": (PASSES, TORCH)})

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def program(self, name, text):
        self.write(name, f"#!/bin/sh\n{text}\n")
        (self.root / name).chmod(0o755)

    def add_tests(self, preset, commands):
        """Adds tests for ctest: shell commands by name, or a command and its label."""
        entries = []
        for name, command in commands.items():
            command, label = (command, CORE) if isinstance(command, str) else command
            entries.append(f'add_test([==[{name}]==] sh -c [==[{command}]==])\n'
                           f'set_tests_properties([==[{name}]==] PROPERTIES SKIP_RETURN_CODE 77 LABELS {label})\n')
        self.write(f"build/{preset}/CTestTestfile.cmake", "".join(entries))

    def run_it(self, *arguments, code, script="test"):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        done = subprocess.run([self.root / "scripts" / script, *arguments], capture_output=True, text=True,
                              env={**ENVIRONMENT, "PATH": path})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.splitlines()[-1], done.stderr.splitlines()

    def test_all_passed(self):
        counts, said = self.run_it(code=0)
        self.assertEqual(counts, "2 passed, 0 failed, 0 skipped")  # the build, and one of ctest
        self.assertEqual(said[-1], "memtune: all passed")

    def test_a_filter_that_selects_nothing_fails(self):
        for arguments in (["--quick", "-R", "typo"], ["-R", "typo"]):
            _, said = self.run_it(*arguments, code=1)
            self.assertEqual(said[-1], "memtune: failed: tests")

    def test_a_source_without_format_fails_the_quick_checks(self):
        self.program("bin/clang-format", "exit 1")
        self.assertEqual(self.run_it("--quick", code=0)[0], "3 passed, 0 failed, 0 skipped")  # no source is there
        self.write("cli/new.cpp", "")
        self.assertEqual(self.run_it("--quick", code=1)[0], "2 passed, 1 failed, 0 skipped")

    def test_skipped_tests_are_named(self):
        filler = "seq 20000; "  # more output than ctest keeps for a passed test
        self.add_tests("release", {"a: one": PASSES, "no tool": SKIPPED, "the case: is skipped":
                               "echo case skipped: the case: is skipped; exit 77",
                               "folder": filler + "echo case skipped: of many: one"})
        counts, said = self.run_it("--quick", code=0)
        self.assertEqual(counts, "4 passed, 0 failed, 3 skipped")
        self.assertEqual(said[-2:], ["memtune: skipped 3: release: no tool, release: the case: is skipped, "
                                     "release: folder: of many: one", "memtune: all passed that was not skipped"])

    def test_a_failure_is_counted_and_printed_again(self):
        inner = "100% tests passed, 0 tests failed out of 9"  # as a test prints that runs ctest itself
        self.add_tests("release", {"a: one": PASSES, "no tool": SKIPPED, "wrong": f"echo the reason; echo {inner}; exit 1"})
        counts, said = self.run_it("--quick", code=1)
        self.assertEqual(counts, "3 passed, 1 failed, 1 skipped")
        self.assertIn("the reason", said)
        self.assertEqual(said[-1], "memtune: failed: tests")

    def test_a_failure_is_printed_again_even_if_a_later_test_calls_ctest(self):
        folder = self.root / "build/release"
        self.add_tests("release", {"wrong": "echo the reason; exit 1",
                                   "later": f"sleep 1; ctest --test-dir {folder} --show-only >{self.root}/entries"})
        counts, said = self.run_it("--quick", code=1)
        self.assertEqual(counts, "3 passed, 1 failed, 0 skipped")
        self.assertIn("the reason", said)
        self.assertIn("release: wrong", said)

    def ci(self, *legs, code):
        self.write("cli/a.cpp", "")
        counts, said = self.run_it(*legs, code=code, script="ci")
        return counts, [line.removeprefix("memtune: ") for line in said if line.startswith("memtune: ")]

    def test_the_legs_of_ci_run_each_kind_of_test_once(self):
        counts, said = self.ci(code=0)
        # test: a build and two tests; format; torch: a build and one; asan: a build, one, fuzzing; tsan: two; tidy
        self.assertEqual(counts, "12 passed, 0 failed, 0 skipped")
        self.assertEqual(said[-1], "no leg failed")
        self.assertEqual([line.split(" in ")[0] for line in said if ": " in line and " in " in line],
                         ["test: 3 passed, 0 failed, 0 skipped", "format: 1 passed, 0 failed, 0 skipped",
                          "torch: 2 passed, 0 failed, 0 skipped", "asan: 3 passed, 0 failed, 0 skipped",
                          "tsan: 2 passed, 0 failed, 0 skipped", "tidy: 1 passed, 0 failed, 0 skipped"])

    def test_a_failure_of_a_leg_does_not_stop_the_next_one(self):
        self.add_tests("ci", {"a: one": PASSES, "torch": ("echo the reason; exit 1", TORCH)})
        counts, said = self.ci("torch", "tsan", code=1)
        self.assertEqual(counts, "3 passed, 1 failed, 0 skipped")
        self.assertEqual(said[-1], "failed: torch")

    def test_a_leg_out_of_time_is_incomplete_and_its_processes_end(self):
        ci = self.root / "scripts/ci"
        ci.write_text(ci.read_text().replace('"${minutes[$leg]}m"', "5s"))
        left = self.root / "left"
        self.add_tests("ci", {"fine": (PASSES, TORCH), "torch": (f"sleep 60; touch {left}", TORCH)})
        counts, said = self.ci("torch", "tsan", code=0)
        self.assertEqual(counts, "3 passed, 0 failed, 1 skipped")
        self.assertEqual(said[-2:], ["incomplete, for want of time: torch", "no leg failed"])
        self.assertTrue(any(line.startswith("torch: INCOMPLETE after") for line in said), said)
        processes = subprocess.run(["pgrep", "-f", str(left)], capture_output=True, text=True).stdout
        self.assertEqual(processes, "")
        self.add_tests("ci", {"bad": ("exit 1", TORCH), "torch": ("sleep 60", TORCH)})
        counts, said = self.ci("torch", "tsan", code=1)  # what failed before the time was over
        self.assertEqual(counts, "2 passed, 1 failed, 1 skipped")
        self.assertEqual(said[-2:], ["incomplete, for want of time: torch", "failed: torch"])

    def test_sources_that_clang_tidy_did_not_read_are_reported(self):
        self.program("scripts/tidy", "echo 'clang-tidy: 4 of 9 not read' >&2; exit 77")
        counts, said = self.ci("tidy", code=0)
        self.assertEqual(counts, "0 passed, 0 failed, 1 skipped")
        self.assertEqual(said[-1], "no leg failed")

    def test_a_finding_of_clang_tidy_fails(self):
        self.program("scripts/tidy", "exit 1")
        self.assertEqual(self.ci("tidy", code=1)[0], "0 passed, 1 failed, 0 skipped")

    def test_an_unknown_leg_is_refused(self):
        done = subprocess.run([self.root / "scripts/ci", "torhc"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no leg 'torhc'", done.stderr)


if __name__ == "__main__":
    unittest.main()
