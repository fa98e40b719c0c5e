"""Runs memtune on every model of make_models.py and compares its results with Python's.

    python check_against_python.py --models build/models --memtune build/release/bin/memtune [--device cuda]
    python check_against_python.py --zoo --models build/zoo --memtune ... [--jobs 4]

Each model is one `memtune sweep` under all strategies, one step, no warm-up. Every trial must be ok with gradients
equal to those of `none`, and offloading must copy something. On a CPU the loss and every gradient of `none` must have
Python's bits, also with dropout, because both use the same seed. A GPU has other kernels. There the loss must be close,
unless it depends on random numbers. Prints a line for each model and `N passed, N failed`. Exit code 1 on a failure, or
if fewer models than --at-least were checked. The models for every change are those of make_models.py --few. With
MEMTUNE_NIGHT that makes all, and all have to be checked.

The zoo (make_models.py --zoo) runs under five strategies and is compared with the exported file, executed by
TorchScript in Python. zoo_exceptions.json lists known failures and their reasons. A model on that list that passes is a
failure, so the list only shrinks. Needs only the standard library.
"""

import argparse
import concurrent.futures
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Optional, Tuple

from reference_file import read_reference

STRATEGIES = ("none", "checkpoint:full", "checkpoint:op", "checkpoint:full,inputs=host", "offload:sync,min=0",
              "offload:stream,min=0")
ZOO_STRATEGIES = ("none", "checkpoint:full", "checkpoint:op", "checkpoint:cheap", "offload:stream,min=0")
EXCEPTIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo_exceptions.json")
CLOSE = 2e-2  # relative difference of the loss between kernels


class Failure(Exception):
    """A wrong result of a model. The text describes it."""


def float32_bits(value: float) -> bytes:
    return struct.pack("<f", value)


def last_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-3:])[-400:]


def sweep(options, model: dict, out: str) -> subprocess.CompletedProcess:
    command = [options.memtune, "sweep", "--rounds", "1", "--model", os.path.join(options.models, model["file"]),
               "--inputs", os.path.join(options.models, model["inputs"]), "--loss", model["loss_kind"],
               "--device", options.device, "--steps", "1", "--warmup", "0", "--seed", str(model["seed"]), "--json", "-",
               "--out", out, *options.extra]
    for strategy in options.strategy:
        command += ["--strategy", strategy]
    # As many threads as in Python, because the order of sums depends on them.
    threads = str(model["threads"])
    environment = dict(os.environ, OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads)
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=options.timeout)


def run(options, model: dict) -> Tuple[dict, Dict[str, str]]:
    """Returns the sweep's JSON and the checksums of the gradients of `none`."""
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as folder:
        out = os.path.join(folder, "run")
        done = sweep(options, model, out)
        if done.returncode != 0:
            raise Failure(f"exit code {done.returncode}: {last_lines(done.stderr)}")
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise Failure(f"stdout is no JSON: {done.stdout[:200]!r}") from None
        return answer, {name: hashlib.sha256(gradient).hexdigest()
                        for name, gradient in read_reference(out).items() if gradient}


def compare_closely(model: dict, loss: float, expected: float) -> str:
    if not model["deterministic"]:
        return f"loss {loss:.7g}, of other random numbers than Python's"
    difference = abs(loss - expected) / abs(expected)
    said = f"loss {loss:.7g}, Python's {expected:.7g}, differs by {difference:.1e}"
    if difference > CLOSE:
        raise Failure(said)
    return said


def compare_bits(loss: float, gradients: Dict[str, str], python: dict) -> str:
    expected = {name: checksum for name, checksum in python["gradients"].items() if checksum}
    if float32_bits(loss) != float32_bits(python["loss"]):
        raise Failure(f"loss {loss:.9g}, Python's is {python['loss']:.9g}")
    differ = sorted(name for name in {*gradients, *expected} if gradients.get(name) != expected.get(name))
    if differ or not expected:
        raise Failure(f"{len(differ)} of {len(expected)} gradients are not Python's: {differ[:3]}")
    return f"loss and {len(expected)} gradients equal"


def compare_with_python(options, model: dict, loss: float, gradients: Dict[str, str]) -> str:
    """Returns a text about `none`. Raises Failure if it differs from Python."""
    with open(os.path.join(options.models, model["expected"])) as file:
        python = json.load(file)
    if options.zoo:
        python = python["torchscript"]
    if not math.isfinite(loss):
        raise Failure(f"loss {loss}, Python's is {python['loss']}")
    if options.device == "cpu":
        return compare_bits(loss, gradients, python)
    return compare_closely(model, loss, python["loss"])


def moved(trial: dict) -> bool:
    """Whether it copied activations out and in. Those that a stream has not copied yet, possibly all, are used in
    place."""
    out_bytes, in_bytes = trial["transfer"]["out_bytes"], trial["transfer"]["in_bytes"]
    least = 1 if trial["strategy"].startswith("offload:sync") else 0
    return out_bytes > 0 and least <= in_bytes <= out_bytes


def compare_trials(trials: List[dict], strategies: List[str]):
    """Expects one ok trial with equal gradients for each strategy. Raises Failure with a list of the others."""
    wrong = []
    if len(trials) != len(strategies):
        names = ", ".join(trial["strategy"] for trial in trials)
        wrong.append(f"{len(trials)} trials for {len(strategies)} strategies ({names})")
    for trial in trials:
        if trial["outcome"] != "ok":
            wrong.append(f"{trial['strategy']}: {trial['outcome']} ({trial.get('reason', '')})")
        elif trial["gradients"]["equal"] is not True:
            wrong.append(f"{trial['strategy']}: gradients differ by {trial['gradients']['max_abs_difference']}")
        elif trial["strategy"].startswith("offload") and not moved(trial):
            wrong.append(f"{trial['strategy']}: moved {trial['transfer']['out_bytes']} bytes out, "
                         f"{trial['transfer']['in_bytes']} in")
    if wrong:
        raise Failure("; ".join(wrong))


def compare_notes(notes: List[str]):
    """Checks that memtune's table has every op of these models."""
    unknown = [note for note in notes if "not known to memtune" in note]
    if unknown:
        raise Failure("; ".join(unknown))


def check(options, model: dict) -> str:
    answer, gradients = run(options, model)
    compare_notes(answer["notes"])
    trials = answer["trials"]
    compare_trials(trials, options.strategy)
    none = [t for t in trials if t["strategy"] == "none"]
    if len(none) != 1:
        raise Failure(f"{len(none)} trials of 'none'")
    return f"{len(trials)} strategies, {compare_with_python(options, model, none[0]['loss'][0], gradients)}"


def line_of(options, model: dict) -> Tuple[Optional[bool], str]:
    """Returns whether it passed (None: a known failure), and the line to print."""
    start = time.monotonic()
    try:
        passed, said = True, check(options, model)
    except Failure as failure:
        passed, said = False, str(failure)
    except subprocess.TimeoutExpired:
        passed, said = False, f"no answer after {options.timeout} s"
    except (KeyError, IndexError, TypeError, ValueError) as error:
        passed, said = False, f"the JSON or the reference file breaks the contract: {type(error).__name__} {error}"
    cause = options.exceptions.get(model["name"])
    if cause and passed:
        passed, said = False, f"is right and stands in {os.path.basename(EXCEPTIONS)}: remove it there"
    elif cause:
        return None, f"wrong {model['name']:24} {time.monotonic() - start:5.1f} s  {cause}"
    return passed, f"{'ok  ' if passed else 'FAIL'} {model['name']:24} {time.monotonic() - start:5.1f} s  {said}"


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", required=True, help="a folder made by make_models.py")
    p.add_argument("--memtune", required=True, help="the program")
    p.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    p.add_argument("--zoo", action="store_true", help="the folder is of make_models.py --zoo")
    p.add_argument("--strategy", action="append", help=f"repeats; default: {' '.join(STRATEGIES)}")
    p.add_argument("--only", default="", help="models whose name holds this")
    p.add_argument("--at-least", type=int, default=37 if "MEMTUNE_NIGHT" in os.environ else 10,
                   help="fail when fewer models were checked (default 10; with MEMTUNE_NIGHT 37)")
    p.add_argument("--jobs", type=int, default=1, help="models at a time")
    p.add_argument("--timeout", type=float, default=600, help="seconds for one model")
    p.add_argument("extra", nargs="*", help="after --: further arguments of memtune sweep")
    options = p.parse_args()
    options.strategy = options.strategy or list(ZOO_STRATEGIES if options.zoo else STRATEGIES)
    options.exceptions = {}
    if options.zoo:
        with open(EXCEPTIONS) as file:
            options.exceptions = json.load(file)
    if "none" not in options.strategy:
        options.strategy.insert(0, "none")
    if not os.access(options.memtune, os.X_OK):
        p.error(f"no program at {options.memtune}")
    return options


def main() -> int:
    options = parse_arguments()
    try:
        with open(os.path.join(options.models, "model_index.json")) as file:
            index = json.load(file)
    except OSError as error:
        print(f"check_against_python.py: {error}; run make_models.py --out {options.models}", file=sys.stderr)
        return 2
    models = [m for m in index["models"] if options.only in m["name"]]
    failed = known = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for passed, line in pool.map(lambda model: line_of(options, model), models):
            print(line, flush=True)
            known += passed is None
            failed += passed is False
    for library in index["missing_libraries"]:
        print(f"not checked: the models of {library}, which is not installed")
    print(f"{len(models) - failed - known} passed, {failed} failed" + (f", {known} known to be wrong" if known else ""))
    if len(models) < options.at_least:
        print(f"check_against_python.py: {len(models)} models checked, {options.at_least} wanted (--at-least)",
              file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
