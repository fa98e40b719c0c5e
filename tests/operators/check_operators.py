"""Trains every case of write_operators.py under memtune's strategies. Compares `none` with Python, and strategies with
`none`.

    python check_operators.py --cases build/operators --worker build/release/bin/memtune-operator-worker

Each worker runs many cases. If one dies, it is restarted after the case that killed it. exceptions.txt must list each
failing case, and each operator without a case in some dtype and mode, with the reason. An exception is a failure too if
anything that it names passes, or if it names nothing, so the list only shrinks. Fails if fewer operators than
--at-least ran, by default 658, or 50 if write_operators.py wrote every 12th. Prints counts for each
strategy. Needs only the standard library.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time

from exceptions import names, read_exceptions

HERE = os.path.dirname(os.path.abspath(__file__))


def ended(code: int) -> str:
    if code == -signal.SIGALRM:
        return "hangs"
    return "crash: " + (signal.Signals(-code).name if code < 0 else f"exit code {code}")


def run(worker: str, folder: str, cases: list) -> list:
    """Returns the answer for each case, in order."""
    answers = []
    while len(answers) < len(cases):
        rest = cases[len(answers):]
        lines = "".join(os.path.join(folder, c["file"]) + (" autocast" if c["dtype"] == "autocast" else "") + "\n"
                        for c in rest)
        done = subprocess.run([worker], input=lines, capture_output=True, text=True,
                              env=dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"))
        answers += [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode != 0 and len(answers) < len(cases):
            answers.append({"verdicts": {"none": ended(done.returncode)}, "reruns": 0, "moved": 0})
    return answers


def run_all(options, cases: list) -> list:
    size = min(50, len(cases) // options.jobs + 1)
    parts = [cases[i:i + size] for i in range(0, len(cases), size)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return [a for answers in pool.map(lambda part: run(options.worker, options.cases, part), parts) for a in answers]


def key(case: dict) -> str:
    return f"{case['operator']} {case['dtype']} {case['mode']}"


def failures_of(index: dict, answers: list) -> dict:
    """Returns {"operator dtype mode": problem} for the first failing case of each."""
    failures = {key(n): "not made: " + n["why"] for n in index["not_made"]}
    for case, answer in zip(index["cases"], answers):
        wrong = [f"{s}: {v}" for s, v in answer["verdicts"].items() if v]
        if wrong:
            failures.setdefault(key(case), f"{case['id']}: " + "; ".join(wrong))
    return failures


def print_counts(index: dict, answers: list):
    ran, passed, operators = collections.Counter(), collections.Counter(), collections.defaultdict(set)
    for case, answer in zip(index["cases"], answers):
        for strategy, verdict in answer["verdicts"].items():
            ran[strategy] += 1
            passed[strategy] += not verdict
            if not verdict:
                operators[strategy].add(case["operator"])
    width = max(map(len, ran))
    print(f"{'':{width}}  operators   cases  passed")
    for strategy in sorted(ran):
        print(f"{strategy:{width}}  {len(operators[strategy]):9}  {ran[strategy]:6}  {passed[strategy]:6}")
    print(f"{sum(a['reruns'] for a in answers)} ops run again, {sum(a['moved'] for a in answers)} bytes moved")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", required=True, help="what write_operators.py wrote")
    p.add_argument("--worker", required=True, help="memtune-operator-worker")
    p.add_argument("--exceptions", default=os.path.join(HERE, "exceptions.txt"))
    p.add_argument("--at-least", type=int, help="operators that have to run and be right")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--list", action="store_true", help="print failures as lines of exceptions.txt, whatever it holds")
    options = p.parse_args()
    with open(os.path.join(options.cases, "index.json")) as file:
        index = json.load(file)
    at_least = options.at_least or (658 if index["every_operator"] else 50)
    start = time.time()
    answers = run_all(options, index["cases"])
    failures = failures_of(index, answers)
    if options.list:
        print("\n".join(f"{name}: {why}" for name, why in sorted(failures.items())))
        return 0
    print_counts(index, answers)
    exceptions = read_exceptions(options.exceptions)
    tried = {key(c) for c in index["cases"] + index["not_made"]}
    unexpected = sorted(set(failures).difference(*(names(pattern, failures) for pattern in exceptions)))
    unneeded = sorted(set().union(*(names(pattern, tried) for pattern in exceptions)) - set(failures))
    empty = [pattern for pattern in exceptions if not names(pattern, index["all"])]
    for name in unexpected:
        print(f"FAILED {name}: {failures[name]}")
    for name in unneeded:
        print(f"FAILED {name}: passes, and has to leave {os.path.basename(options.exceptions)}")
    for pattern in empty:
        print(f"FAILED {pattern}: names nothing, and has to leave {os.path.basename(options.exceptions)}")
    right = {c["operator"] for c, a in zip(index["cases"], answers) if not any(a["verdicts"].values())}
    if len(right) < at_least:
        print(f"FAILED only {len(right)} operators ran and were right, not {at_least}")
    moved = all(sum(a[what] for a in answers) > 0 for what in ("reruns", "moved"))
    if not moved:
        print("FAILED nothing was run again, or nothing moved")
    print(f"{len(right)} operators right, {len(failures)} exceptions, {len(answers)} cases, "
          f"{len(index['left_out'])} samples not made, {time.time() - start:.0f} s")
    return 1 if unexpected or unneeded or empty or len(right) < at_least or not moved else 0


if __name__ == "__main__":
    sys.exit(main())
