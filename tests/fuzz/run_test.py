#!/usr/bin/env python3
"""Tests that run.py fails if a parser was not fuzzed, with scripts in place of the fuzzer.

    run_test.py RUN.PY
"""
import os
import stat
import subprocess
import sys
import tempfile
import unittest

RUN = os.path.abspath(sys.argv.pop(1))
LIST = 'case "$1" in "--parser=?") echo %s; exit 2;; esac\n'


def parsers():
    sys.path.insert(0, os.path.dirname(RUN))
    import run

    return list(run.seeds())


class Runner(unittest.TestCase):
    def run_with(self, script, names=None, arguments=("words",), runs="5"):
        """Exit code and output of run.py, with a program that lists its parsers and then runs the script."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "fuzzer")
            with open(program, "w") as file:
                file.write("#!/bin/sh\n" + LIST % " ".join(PARSERS if names is None else names) + script)
            os.chmod(program, stat.S_IRWXU)
            done = subprocess.run([sys.executable, RUN, program, "--corpus", os.path.join(folder, "corpus"), "--runs", runs,
                                   "--jobs", "1", *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_a_program_that_completes_its_runs_passes(self):
        code, said = self.run_with("echo number_of_executed_units: 5")
        self.assertEqual(code, 0, said)

    def test_fewer_runs_than_requested_are_a_fault_without_a_message_of_the_program(self):
        for script in ("exit 0", "echo number_of_executed_units: 4", "echo number_of_executed_units: 0"):
            code, said = self.run_with(script)
            self.assertEqual(code, 1, said)
            self.assertIn("FAULT", said)
        code, said = self.run_with("echo number_of_executed_units: 0", runs="0")
        self.assertEqual(code, 1, said)

    def test_the_least_number_of_runs_has_no_time_limit_and_further_runs_have_one(self):
        slow = ('for a; do case $a in -runs=*) runs=${a#*=};; -max_total_time=*) seconds=${a#*=};; esac; done\n'
                '[ $seconds = 0 ] && made=$runs || made=400\n%s\necho number_of_executed_units: $made')
        code, said = self.run_with(slow % "", arguments=("words", "--seconds", "10"), runs="5000")
        self.assertEqual(code, 0, said)
        self.assertIn("1,400 executions", said)
        for fault in ("[ $seconds = 0 ] && exit 77", "[ $seconds = 0 ] || exit 77"):
            code, said = self.run_with(slow % fault, arguments=("words", "--seconds", "10"), runs="5000")
            self.assertEqual(code, 1, said)
        code, said = self.run_with("echo number_of_executed_units: 400", arguments=("words", "--seconds", "10"), runs="5000")
        self.assertEqual(code, 1, said)

    def test_a_program_that_is_killed_or_fails_silently_is_a_fault(self):
        code, said = self.run_with("kill -9 $$")
        self.assertEqual(code, 1, said)
        self.assertIn("killed by signal 9", said)
        code, said = self.run_with("echo number_of_executed_units: 5; exit 77")
        self.assertEqual(code, 1, said)

    def test_parsers_without_seeds_and_seeds_without_a_parser_are_named(self):
        code, said = self.run_with("echo number_of_executed_units: 5", names=[*PARSERS, "newest"])
        self.assertNotEqual(code, 0, said)
        self.assertIn("newest", said)
        code, said = self.run_with("echo number_of_executed_units: 5", names=PARSERS[1:])
        self.assertNotEqual(code, 0, said)
        self.assertIn(PARSERS[0], said)
        code, said = self.run_with("echo number_of_executed_units: 5", arguments=("no-such",))
        self.assertNotEqual(code, 0, said)
        self.assertIn("no-such", said)

    def test_missing_files_for_seeds_are_reported(self):
        moved = os.path.join(tempfile.mkdtemp(), "run.py")
        with open(RUN) as file, open(moved, "w") as copy:
            copy.write(file.read().replace('"trials/*/trace.mttrace"', '"trials/*/gone"'))
        with open(moved) as file:
            text = file.read().replace("os.path.dirname(os.path.abspath(__file__))", repr(os.path.dirname(RUN)))
        with open(moved, "w") as file:
            file.write(text)
        done = subprocess.run([sys.executable, moved, "true"], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no seeds", done.stderr)


PARSERS = parsers()

if __name__ == "__main__":
    unittest.main()
