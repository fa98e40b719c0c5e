#!/usr/bin/env python3
"""Removes the defences against the engines' traps, one by one, and checks that a test fails.

    python3 tests/mutants/run.py --check                      checks that each line to replace exists and has a row
    python3 tests/mutants/run.py --torch-python PYTHON        builds and runs each in a copy of the tree; an hour or more

Each suite first runs on the unmutated copy. If it fails there, or runs no case, all its mutants are refused. A mutant
is killed if a test fails. A suite that exceeds five times its own duration and a minute is a hang, with its own kind of
row. A mutant that does not compile proves nothing and fails, like one that survives. --write puts every row into
results.md at once, so an interrupted run can be continued with --missing.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from mutants import ANSWERS, MUTANTS, PYTHON, SWEEP, TIER

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = pathlib.Path(__file__).with_name("results.md")
HEAD = "| trap, and the defence taken away | test that failed | what it said |\n|---|---|---|\n"
ABSENT = "No row yet: "
SKIPPED = 77
LONGEST_BASELINE = 900  # seconds
# In a preset with warnings as errors, names that only the removed line used must not be errors.
MAY_BE_UNUSED = "".join(f'#pragma GCC diagnostic warning "-Wunused-{what}"\n'
                        for what in ("function", "variable", "parameter", "but-set-variable", "but-set-parameter"))
SKIPPED_FOLDERS = ("build", ".git", ".gpu", "shared", "__pycache__")


def check():
    missing = [f"{trap}: {file} has no '{old}'" for trap, file, old, _, _ in MUTANTS
               if (ROOT / file).read_text().count(old) != 1]
    print("\n".join(missing) or f"{len(MUTANTS)} mutants, every line is there once")
    return 1 if missing else 0


def check_rows():
    """Checks that each mutant has a row with the test that failed, and each row a mutant."""
    rows, traps = read_rows(RESULTS.read_text()), {mutant[0] for mutant in MUTANTS}
    wrong = [f"{trap}: no row in {RESULTS.name}" for trap in sorted(traps - set(rows))]
    wrong += [f"{trap}: a row in {RESULTS.name} and no mutant" for trap in sorted(set(rows) - traps)]
    wrong += [f"{trap}: {row}" for trap, row in rows.items() if row.startswith("NONE")]
    print("\n".join(wrong) or f"{len(rows)} rows, each of a mutant that a test noticed")
    return 1 if wrong else 0


# --- the table ---

def read_rows(text):
    """Returns {trap: rest of its row}."""
    table = text.partition(HEAD)[2].partition("\n\n")[0]
    return dict(line[2:-2].split(" | ", 1) for line in table.splitlines() if line.startswith("| "))


def with_rows(text, rows):
    """Returns the text with these rows in the order of the mutants, and the mutants without a row."""
    before, _, rest = text.partition(HEAD)
    after = rest.partition("\n\n")[2]
    if after.startswith(ABSENT):
        after = after.partition("\n\n")[2]
    traps = [mutant[0] for mutant in MUTANTS]
    table = "".join(f"| {trap} | {rows[trap]} |\n" for trap in traps if trap in rows)
    absent = "; ".join(trap for trap in traps if trap not in rows)
    return f"{before}{HEAD}{table}\n" + (f"{ABSENT}{absent}.\n\n" if absent else "") + after


# --- the copy ---

def files_of(folder):
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        yield from (pathlib.Path(place, name).relative_to(folder) for name in names)


def copy_tree(copy):
    """Writes only files that differ, with the current time, because an earlier run may have left a mutant."""
    copy.mkdir(parents=True, exist_ok=True)
    wanted = set(files_of(ROOT))
    for stale in set(files_of(copy)) - wanted:
        (copy / stale).unlink()
    for file in wanted:
        source, target = ROOT / file, copy / file
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def program(tests):
    return "memtune-tests" if tests in (TIER, ANSWERS, SWEEP, PYTHON) else "memtune-torch-tests"  # without LibTorch, and with


class Copy:
    """A copy of the tree that is mutated and built."""

    def __init__(self, options):
        self.tree, self.build_folder = options.copy, options.copy / "build" / options.preset
        copy_tree(self.tree)
        subprocess.run(["cmake", "--preset", options.preset, f"-DMEMTUNE_TORCH_PYTHON={options.torch_python}"],
                       cwd=self.tree, check=True, stdout=subprocess.DEVNULL)

    def build(self, tests, mutant=None):
        """Returns the program, or None and the compiler's output."""
        if mutant:
            _, file, old, new, _ = mutant
            path = self.tree / file
            text = path.read_text()
            path.write_text(MAY_BE_UNUSED + text.replace(old, new))
        try:
            built = subprocess.run(["ninja", "-C", self.build_folder, program(tests)], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        finally:
            if mutant:
                path.write_text(text)
        if built.returncode:
            return None, built.stdout[-3000:]
        return self.build_folder / "bin" / program(tests), ""


# --- the tests ---

def run_suite(made, tests, limit):
    """Returns (exit code, or None for a hang; output; seconds)."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:  # a pipe would wait for surviving children
        process = subprocess.Popen([made, "-sf=" + tests, "--abort-after=1"], stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        output.seek(0)
        return code, output.read(), time.monotonic() - start


def first_failure(output):
    failure = re.search(r"TEST CASE: +([^\n]*)\n(?:.*\n)*?.*ERROR: ([^\n]*)", output)
    case, said = failure.groups() if failure else ("the program", "it ended")
    return f"{case.strip()} | {said[:90].replace('|', '/')}"


def baseline(copy, tests):
    """Returns the seconds of the unmutated suite. None, with the reason on stderr, if it proves nothing."""
    made, said = copy.build(tests)
    if not made:
        sys.exit(said)
    code, output, seconds = run_suite(made, tests, LONGEST_BASELINE)
    passed = re.search(r"test cases: +(\d+) \| +(\d+) passed", output)
    if code == 0 and passed and int(passed[2]) > 0:
        print(f"{tests}: {passed[2]} cases pass unmutated in {seconds:.0f} s", file=sys.stderr, flush=True)
        return seconds
    why = f"no end within {LONGEST_BASELINE} s" if code is None else f"exit code {code}: {first_failure(output)}"
    print(f"REFUSED {tests}: unmutated it does not pass, {why}", file=sys.stderr, flush=True)
    return None


def verdict(made, said, tests, unmutated):
    """Returns (whether a test failed, rest of the row)."""
    if not made:
        error = re.search(r"error: ([^\n]*)", said)
        return False, f"NONE | it does not compile: {(error[1] if error else said)[:60].replace('|', '/')}"
    limit = 5 * unmutated + 60
    code, output, _ = run_suite(made, tests, limit)
    if code is None:
        return True, f"hang | no end within {limit:.0f} s, unmutated {unmutated:.0f} s"
    noticed = code not in (0, SKIPPED)
    return noticed, first_failure(output) if noticed else "NONE | the mutant survived"


def run_all(options, mutants):
    """Returns the number of mutants that survived or could not be tested."""
    copy = Copy(options)
    unmutated = {tests: baseline(copy, tests) for tests in dict.fromkeys(mutant[-1] for mutant in mutants)}
    tried = [mutant for mutant in mutants if unmutated[mutant[-1]] is not None]
    failed = len(mutants) - len(tried)
    for mutant in tried:
        trap, tests, start = mutant[0], mutant[-1], time.monotonic()
        noticed, row = verdict(*copy.build(tests, mutant), tests, unmutated[tests])
        failed += not noticed
        print(f"| {trap} | {row} |", flush=True)
        print(f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        if options.write:
            text = RESULTS.read_text()
            RESULTS.write_text(with_rows(text, {**read_rows(text), trap: row}))
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--torch-python", help="a python that has torch 2.11")
    parser.add_argument("--only", default="", help="mutants whose trap has this in its name")
    parser.add_argument("--missing", action="store_true", help="mutants that have no row in results.md")
    parser.add_argument("--write", action="store_true", help="put each row into results.md")
    parser.add_argument("--preset", default="release", help="of CMakePresets.json; one that is built elsewhere hits ccache")
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build/mutants", help="folder of the copy, which stays")
    options = parser.parse_args()
    if check():
        return 1
    if options.check:
        return check_rows()
    rows = read_rows(RESULTS.read_text())
    mutants = [mutant for mutant in MUTANTS
               if options.only in mutant[0] and not (options.missing and mutant[0] in rows)]
    if not mutants:
        sys.exit("no mutant is selected")
    failed = run_all(options, mutants)
    print(f"{len(mutants) - failed} mutants noticed, {failed} not", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
