"""Tests the summary of scripts/test, with fake builds. A check that did not run must not count as passed.

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
build() { :; }
install_for_tests() { :; }
"""
PASSES, SKIPPED = "exit 0", "exit 77"


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "core").mkdir()
        self.write("scripts/lib.sh", LIB)
        self.program("scripts/tidy", "echo 'clang-tidy: 2 sources clean' >&2")
        self.program("bin/clang-format", PASSES)
        self.write("tests/fuzz/run.py", "")
        self.write("build/tidy/compile_commands.json", "[]")
        shutil.copy(SCRIPTS / "test", self.root / "scripts/test")
        for preset in ("release", "asan", "tsan"):
            self.add_tests(preset, {"a: one": PASSES})

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def program(self, name, text):
        self.write(name, f"#!/bin/sh\n{text}\n")
        (self.root / name).chmod(0o755)

    def add_tests(self, preset, commands):
        """Adds tests for ctest: shell commands by name."""
        entries = [f'add_test([==[{name}]==] sh -c [==[{command}]==])\n'
                   f'set_tests_properties([==[{name}]==] PROPERTIES SKIP_RETURN_CODE 77)\n'
                   for name, command in commands.items()]
        self.write(f"build/{preset}/CTestTestfile.cmake", "".join(entries))

    def run_it(self, *arguments, code):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        done = subprocess.run([self.root / "scripts/test", *arguments], capture_output=True, text=True,
                              env={**os.environ, "PATH": path})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.splitlines()[-1], done.stderr.splitlines()

    def test_all_passed(self):
        counts, said = self.run_it(code=0)
        self.assertEqual(counts, "10 passed, 0 failed, 0 skipped")  # three of ctest, five builds, formatting, fuzzing
        self.assertEqual(said[-1], "memtune: all passed")

    def test_a_filter_that_selects_nothing_fails(self):
        for arguments in (["--quick", "-R", "typo"], ["-R", "typo"]):
            _, said = self.run_it(*arguments, code=1)
            self.assertEqual(said[-1], "memtune: failed: tests")

    def test_a_part_without_selected_tests_is_reported_as_skipped(self):
        self.add_tests("asan", {"b": PASSES})
        counts, said = self.run_it("-R", "one", code=0)
        self.assertEqual(counts, "9 passed, 0 failed, 1 skipped")
        self.assertIn("memtune: skipped 1: tests under ASan and UBSan (none is selected)", said)

    def test_skipped_tests_are_named(self):
        filler = "seq 20000; "  # more output than ctest keeps for a passed test
        self.add_tests("release", {"a: one": PASSES, "no tool": SKIPPED, "the case: is skipped":
                               "echo case skipped: the case: is skipped; exit 77",
                               "folder": filler + "echo case skipped: of many: one"})
        counts, said = self.run_it("--quick", code=0)
        self.assertEqual(counts, "3 passed, 0 failed, 3 skipped")
        self.assertEqual(said[-2:], ["memtune: skipped 3: release: no tool, release: the case: is skipped, "
                                     "release: folder: of many: one", "memtune: all passed that was not skipped"])

    def test_a_failure_is_counted_and_printed_again(self):
        self.add_tests("release", {"a: one": PASSES, "no tool": SKIPPED, "wrong": "echo the reason; exit 1"})
        counts, said = self.run_it("--quick", code=1)
        self.assertEqual(counts, "2 passed, 1 failed, 1 skipped")
        self.assertIn("the reason", said)
        self.assertEqual(said[-1], "memtune: failed: tests")

    def test_a_failure_is_printed_again_even_if_a_later_test_calls_ctest(self):
        folder = self.root / "build/release"
        self.add_tests("release", {"wrong": "echo the reason; exit 1",
                                   "later": f"sleep 1; ctest --test-dir {folder} --show-only >{self.root}/entries"})
        counts, said = self.run_it("--quick", code=1)
        self.assertEqual(counts, "2 passed, 1 failed, 0 skipped")
        self.assertIn("the reason", said)
        self.assertIn("release: wrong", said)

    def test_sources_that_clang_tidy_did_not_read_are_reported(self):
        self.program("scripts/tidy", "echo 'clang-tidy: 4 of 9 not read' >&2; exit 77")
        counts, said = self.run_it("--minutes", "60", code=0)
        self.assertEqual(counts, "9 passed, 0 failed, 1 skipped")
        self.assertIn("memtune: skipped 1: clang-tidy (clang-tidy: 4 of 9 not read)", said)

    def test_a_finding_of_clang_tidy_fails(self):
        self.program("scripts/tidy", "exit 1")
        self.assertEqual(self.run_it(code=1)[0], "9 passed, 1 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
