"""Tests the Python plan on PyTorch's own test database (op_db): each operator in three chained blocks. It reads
activations or parameters, or writes in place, in several dtypes and under autocast. Gradients equal those without the
plan bit for bit.

    python check_operators.py [--all | --compiled] [--jobs N] [--at-least N] [OPERATOR...]

--all: every sample in every mode, else the cases on which every change is tested. Without MEMTUNE_NIGHT, a flag or
names, these are of every 12th operator. --compiled: cases in float32 that read activations. Gradients are near those of
torch.compile alone, which recomputes nothing.

Fails if a case fails, or if fewer than --at-least pass. Without --compiled it also fails if an operator has no case in
a dtype and mode that tests/operators/exceptions.txt does not list.
"""
import argparse
import multiprocessing
import os
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import torch

import plans
from plans import applied, compiled_alone, data, equal, near

sys.path.insert(0, os.path.join(plans.ROOT, "tests", "operators"))
from exceptions import names, read_exceptions  # noqa: E402
from operator_case import BLOCKS, NotMade, answer, chain, train  # noqa: E402
from write_operators import (SPREAD, UNDEFINED, check_repeats_itself, first_line, full_name, operators,  # noqa: E402
                             samples_of, spread, wanted)

PLANS = ["recompute recompute", "host host", "recompute host", "host recompute"]


def values(model, dtype, run=train):
    loss, gradients = run(model, dtype == "autocast")
    return list(gradients), [loss, *gradients.values()]


def same(a, b):
    return a[0] == b[0] and equal(a[1], b[1])


def made(run):
    try:
        return run()
    except NotMade:
        raise
    except Exception as error:
        raise NotMade("without a plan: " + first_line(error)) from error


def plain_of(model, dtype):
    """Results of the model without a plan. Raises NotMade with the reason if they cannot be compared."""
    plain, again = (made(lambda: values(model, dtype, answer)) for _ in range(2))
    if not same(again, plain):
        raise NotMade("differs by itself")
    return plain


def plain_of_compiled(model, dtype):
    with plans.without_kernels(), compiled_alone(model.layers):
        return made(lambda: values(model, dtype, answer))


def follow_compiled(mp, model, dtype, plain):
    torch._dynamo.reset()
    with plans.without_kernels():
        with applied(mp, model, data(BLOCKS, "keep keep", compile={"left_bytes": 0, "hidden_bytes": 64})):
            for _ in range(2):
                found = values(model, dtype)
                assert found[0] == plain[0] and near(found[1], plain[1]), "gradients differ"


def follow(mp, model, dtype, plain):
    for others in PLANS:
        with applied(mp, model, data(BLOCKS, others)):
            assert same(values(model, dtype), plain), f"{others}: gradients differ"


def check_case(mp, model, dtype, plain, compiled):
    """Returns the problem under a plan, or None. Every exception is a problem."""
    try:
        (follow_compiled if compiled else follow)(mp, model, dtype, plain)
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"


def check(op, every, compiled):
    """Returns a line with the result of each case."""
    torch.set_num_threads(1)
    mp, lines = plans.load(words=plans.COMPILED if compiled else plans.EAGER), []
    for dtype, mode, most in wanted(op, every):
        if compiled and (dtype, mode) != ("float32", "value"):
            continue
        samples, differentiable = samples_of(op, dtype, every)
        operator = op.inplace_variant if mode.startswith("inplace") else op.op
        tried = 0
        for number in spread(len(samples), most or len(samples)):
            if most and tried == most:
                break
            name = f"{full_name(op)} {dtype} {mode} #{number}"
            try:
                check_repeats_itself(op, samples[number])
                model = made(lambda: chain(operator, samples[number], mode, differentiable))
                plain = (plain_of_compiled if compiled else plain_of)(model, dtype)
            except NotMade as why:
                lines.append(f"not made {name}: {why}")
                continue
            wrong = check_case(mp, model, dtype, plain, compiled)
            lines.append(f"FAILED {name}: {wrong}" if wrong else "ok " + name)
            tried += 1
    return lines


def check_number(number):
    return check(CHOSEN[number], OPTIONS.all, OPTIONS.compiled)


def without_a_case(chosen, every, tried):
    """Operators with a dtype and a mode without a tested sample and without an exception."""
    keys = [f"{full_name(op)} {dtype} {mode}" for op in chosen for dtype, mode, _ in wanted(op, every)]
    patterns = read_exceptions(os.path.join(plans.ROOT, "tests", "operators", "exceptions.txt"))
    return sorted(set(keys).difference(tried, *(names(pattern, keys) for pattern in patterns)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--at-least", type=int, default=1)
    parser.add_argument("operators", nargs="*")
    OPTIONS = parser.parse_args()
    warnings.filterwarnings("ignore")
    CHOSEN = [op for op in operators() if op.name not in UNDEFINED
              and (not OPTIONS.operators or full_name(op) in OPTIONS.operators)]
    if not (plans.NIGHT or OPTIONS.all or OPTIONS.compiled or OPTIONS.operators):
        CHOSEN = CHOSEN[::SPREAD]
    counts, tried = Counter(), set()
    with ProcessPoolExecutor(OPTIONS.jobs, multiprocessing.get_context("fork")) as pool:  # the database loads for 10 s
        for line in (line for lines in pool.map(check_number, range(len(CHOSEN))) for line in lines):
            counts[line.split()[0]] += 1
            if not line.startswith("not made"):
                tried.add(line.partition(" ")[2].partition(" #")[0])
            if line.startswith("FAILED"):
                print(line, flush=True)
    lacking = [] if OPTIONS.compiled else without_a_case(CHOSEN, OPTIONS.all, tried)
    for key in lacking:
        print(f"FAILED {key}: no sample was tried, and tests/operators/exceptions.txt does not say why")
    print(f"{counts['ok']} cases followed, {counts['not']} not made, {counts['FAILED']} failed")
    sys.exit(bool(counts["FAILED"] or lacking) or counts["ok"] < OPTIONS.at_least)
