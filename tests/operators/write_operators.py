"""Writes the operators of PyTorch's own test database (op_db) as TorchScript models, with the results of Python.

    python write_operators.py --out build/operators            the cases on which every change is tested: of every 12th
                                                               operator, and with MEMTUNE_NIGHT of each
    python write_operators.py --out build/operators-all --all  all samples in all modes and dtypes, and under autocast

    OUT/index.json   cases (id, file, operator, dtype, mode), those that could not be made and why, with --all also
                     single samples (left_out), every "operator dtype mode" that --all tries (all), whether each
                     operator was tried (every_operator), stamp
    OUT/N.pt         a model of three chained blocks. Its extra file "answer" has loss and gradients

Does nothing if all is up to date. Needs only torch.
"""

import argparse
import functools
import glob
import hashlib
import io
import itertools
import json
import os
import random
import shutil
import sys
import time
import traceback
import types
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import torch
from arithmetic import arithmetic
from operator_case import NotMade, answer, chain, trace

# Number of samples on which every change is tested.
USUAL = {("float32", "value"): 3, ("float32", "parameter"): 1, ("float32", "inplace"): 1, ("float32", "inplace_view"): 1,
         ("complex64", "value"): 1, ("bfloat16", "value"): 1, ("bfloat16", "inplace"): 1}
DTYPES = {"float32": torch.float32, "complex64": torch.complex64, "bfloat16": torch.bfloat16,
          "autocast": torch.float32}
MODES = ("value", "parameter", "inplace", "inplace_view")
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
SPREAD = 12  # every change is tested on each operator of this number
MOST_SAMPLES = 40  # from which the usual samples are taken


def operators():
    """Returns op_db. Its module imports expecttest, which is not used here. Operators with random numbers get no new
    seed at each call, because a trace would not contain it."""
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal import common_methods_invocations as database
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return database.op_db


def full_name(op) -> str:
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def wanted(op, every: bool):
    """Yields (dtype, mode, number of samples; 0: all)."""
    for dtype, mode in itertools.product(DTYPES, MODES):
        if DTYPES[dtype] not in op.supported_dtypes("cpu") or not (every or (dtype, mode) in USUAL):
            continue
        exists = {"parameter": op.supports_autograd, "value": True}.get(mode, op.inplace_variant is not None)
        if exists:
            yield dtype, mode, 0 if every else USUAL[dtype, mode]


def spread(count: int, most: int):
    """Returns positions: first `most` evenly spread ones, then the others as a reserve for failures."""
    first = sorted({round(i * (count - 1) / max(1, most - 1)) for i in range(most)}) if count > most else range(count)
    return [*first, *(i for i in range(count) if i not in first)]


def samples_of(op, dtype: str, every: bool):
    torch.manual_seed(1)
    random.seed(1)
    differentiable = op.supports_autograd and DTYPES[dtype] in op.supported_backward_dtypes("cpu")
    made = op.sample_inputs("cpu", DTYPES[dtype], requires_grad=differentiable)
    return list(made if every else itertools.islice(made, MOST_SAMPLES)), differentiable


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def check_repeats_itself(op, sample):
    """LAPACK's gelsy reads a list of pivots that LibTorch does not initialise, so one input has several results."""
    if op.name == "linalg.lstsq" and sample.kwargs.get("driver") == "gelsy":
        raise NotMade("its result depends on memory that nobody wrote")


def write_case(op, dtype: str, mode: str, sample, differentiable: bool, path: str):
    """Writes a case. Raises NotMade with the reason."""
    check_repeats_itself(op, sample)
    try:
        operator = op.inplace_variant if mode.startswith("inplace") else op.op
        model = chain(operator, sample, mode, differentiable)
        loss, gradients = answer(model, dtype == "autocast")
    except NotMade:
        raise
    except Exception as error:
        raise NotMade("eager: " + first_line(error)) from error
    try:
        traced = trace(model)
    except Exception as error:
        raise NotMade("trace: " + first_line(error)) from error
    expected = io.BytesIO()
    torch.save({"loss": loss, **{"gradient " + name: g for name, g in gradients.items()}}, expected)
    torch.jit.save(traced, path, _extra_files={"answer": expected.getvalue()})


def in_processes(parts, jobs: int, task):
    """Calls task(part) for each part in its own process, because TorchScript's compiler never frees its memory.
    Processes are forked, because the database takes ten seconds to load."""
    running = {}

    def wait():
        child, status = os.wait()
        part = running.pop(child)
        if status:
            sys.exit(f"the process of operators {part} ended with status {status}")

    for part in parts:
        if len(running) == jobs:
            wait()
        child = os.fork()
        if child:
            running[child] = part
            continue
        status = 1
        try:
            task(part)
            status = 0
        except Exception:
            traceback.print_exc()
        os._exit(status)
    while running:
        wait()


def write_part(numbers, out: str, every: bool):
    for number in numbers:
        with open(os.path.join(out, f"{number}.json"), "w") as file:
            json.dump(write_operator(number, out, every), file)


def write_operator(number: int, out: str, every: bool):
    warnings.simplefilter("ignore")
    op = operators()[number]
    cases, not_made, left_out = [], [], []
    for dtype, mode, most in wanted(op, every):
        reasons = []
        if op.name in UNDEFINED:
            not_made.append({"operator": full_name(op), "dtype": dtype, "mode": mode, "why": "its result is not defined"})
            continue
        try:
            samples, differentiable = samples_of(op, dtype, every)
        except Exception as error:
            not_made.append({"operator": full_name(op), "dtype": dtype, "mode": mode, "why": "samples: " + first_line(error)})
            continue
        made = 0
        for i in spread(len(samples), most) if most else range(len(samples)):
            if most and made == most:
                break
            file = f"{number}-{dtype}-{mode}-{i}.pt"
            try:
                write_case(op, dtype, mode, samples[i], differentiable, os.path.join(out, file))
            except NotMade as why:
                reasons.append(str(why))
                continue
            made += 1
            cases.append({"id": f"{full_name(op)}/{dtype}/{mode}/{i}", "file": file, "operator": full_name(op),
                          "dtype": dtype, "mode": mode})
        left_out += [] if most or not made else [f"{full_name(op)} {dtype} {mode}: {why}" for why in reasons]
        if not made:
            why = max(set(reasons), key=reasons.count) if reasons else "has no samples"
            not_made.append({"operator": full_name(op), "dtype": dtype, "mode": mode, "why": why})
    return cases, not_made, left_out


def stamp(every: bool) -> str:
    digest = hashlib.sha256(b"all" if every else b"")
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*.py"))):
        if os.path.basename(path) != "check_operators.py":
            with open(path, "rb") as file:
                digest.update(file.read())
    return f"torch {torch.__version__}, {arithmetic()}, {digest.hexdigest()[:16]}"


def up_to_date(out: str, current: str) -> bool:
    try:
        with open(os.path.join(out, "index.json")) as file:
            return json.load(file)["stamp"] == current
    except (OSError, ValueError, KeyError):
        return False


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, help="folder; what is in it goes")
    p.add_argument("--all", action="store_true", help="all samples in all modes and dtypes, and under autocast")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--only", default="", help="part of an operator's name")
    options = p.parse_args()
    each = "MEMTUNE_NIGHT" in os.environ or options.all or options.only != ""
    current = f"{stamp(options.all)} {each} {options.only}"
    if up_to_date(options.out, current):
        print(f"{options.out} is up to date")
        return 0
    start = time.time()
    torch.set_num_threads(1)
    torch._C._set_graph_executor_optimize(False)
    shutil.rmtree(options.out, ignore_errors=True)
    os.makedirs(options.out)
    numbers = [i for i, op in enumerate(operators()) if options.only in full_name(op)][::1 if each else SPREAD]
    # All samples of one operator take up to 3 GiB. With usual samples, parts of 24 balance well.
    size = 1 if options.all else min(24, len(numbers) // 8 + 1)
    in_processes([numbers[i:i + size] for i in range(0, len(numbers), size)], options.jobs,
                 functools.partial(write_part, out=options.out, every=options.all))
    index = {"stamp": current, "every_operator": each and not options.only, "cases": [], "not_made": [], "left_out": [],
             "all": [f"{full_name(op)} {dtype} {mode}" for op in operators() for dtype, mode, _ in wanted(op, True)]}
    for number in numbers:
        with open(os.path.join(options.out, f"{number}.json")) as file:
            cases, not_made, left_out = json.load(file)
        index["cases"] += cases
        index["not_made"] += not_made
        index["left_out"] += left_out
    with open(os.path.join(options.out, "index.json"), "w") as file:
        json.dump(index, file, indent=0)
    print(f"{len(index['cases'])} cases of {len({c['operator'] for c in index['cases']})} operators in {options.out}, "
          f"{len(index['not_made'])} not made, {len(index['left_out'])} samples of others not made, "
          f"{time.time() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
