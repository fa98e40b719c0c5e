"""The Python plan on PyTorch's own test database (op_db): each operator in three chained blocks, reading activations or
parameters, writing in place, in several dtypes and under autocast. Gradients are bit for bit those without the plan.

    python check_operators.py [--all | --compiled] [--jobs N] [--at-least N] [OPERATOR...]

--all: every sample in every mode; else what every change is tried with. --compiled: those in float32 that read activations;
gradients are near those of torch.compile alone, which repeats nothing.
"""
import argparse
import os
import sys
import warnings

import torch

import plans
from plans import applied, data, equal

sys.path.insert(0, os.path.join(plans.ROOT, "tests", "operators"))
from operator_case import BLOCKS, NotMade, answer, chain  # noqa: E402
from write_operators import (UNDEFINED, check_repeats_itself, first_line, full_name, in_processes, operators,  # noqa: E402
                             samples_of, spread, wanted)

PLANS = ["recompute recompute", "host host", "recompute host", "host recompute"]


def values(model, dtype):
    loss, gradients = answer(model, dtype == "autocast")
    return list(gradients), [loss, *gradients.values()]


def same(a, b):
    return a[0] == b[0] and equal(a[1], b[1])


def near(a, b):
    return a[0] == b[0] and all(torch.allclose(x, y, rtol=1e-3, atol=1e-5) for x, y in zip(a[1], b[1]))


def made(run):
    try:
        return run()
    except NotMade:
        raise
    except Exception as error:
        raise NotMade("without a plan: " + first_line(error)) from error


def compiled_alone(model, dtype):
    torch._dynamo.reset()
    for block in model.layers:
        block.compile()
    try:
        return values(model, dtype)
    finally:
        for block in model.layers:
            block._compiled_call_impl = None


def follows_compiled(mp, operator, sample, mode, dtype, differentiable):
    model = made(lambda: chain(operator, sample, mode, differentiable))
    with plans.without_kernels():
        plain = made(lambda: compiled_alone(model, dtype))
        torch._dynamo.reset()
        with applied(mp, model, data(BLOCKS, "keep keep", compile={"left_bytes": 0, "hidden_bytes": 64})):
            for _ in range(2):
                assert near(values(model, dtype), plain), "gradients differ"


def follows(mp, operator, sample, mode, dtype, differentiable):
    """NotMade with the reason where there is no such model."""
    model = made(lambda: chain(operator, sample, mode, differentiable))
    plain = made(lambda: values(model, dtype))
    if not same(values(model, dtype), plain):
        raise NotMade("differs by itself")
    for others in PLANS:
        with applied(mp, model, data(BLOCKS, others)):
            assert same(values(model, dtype), plain), f"{others}: gradients differ"


def check(op, every, compiled, told):
    mp = plans.load(words=plans.COMPILED if compiled else plans.EAGER)
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
                (follows_compiled if compiled else follows)(mp, operator, samples[number], mode, dtype, differentiable)
                tried += 1
                told("ok " + name)
            except NotMade as why:
                told(f"not made {name}: {why}")
            except Exception as error:
                tried += 1
                told(f"FAILED {name}: {type(error).__name__}: {first_line(error)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--at-least", type=int, default=0)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    every = [op for op in operators() if op.name not in UNDEFINED
             and (not options.operators or full_name(op) in options.operators)]
    read, write = os.pipe()

    def part(number):
        for op in every[number::options.jobs]:
            check(op, options.all, options.compiled, lambda line: os.write(write, (line + "\n").encode()))

    teller = os.fork()
    if not teller:
        os.close(write)
        counts = {"ok": 0, "not": 0, "FAILED": 0}
        for line in os.fdopen(read):
            counts[line.split()[0]] += 1
            if line.startswith("FAILED"):
                print(line, end="", flush=True)
        print(f"{counts['ok']} cases followed, {counts['not']} not made, {counts['FAILED']} failed")
        os._exit(counts["FAILED"] > 0 or counts["ok"] < options.at_least)
    in_processes(range(options.jobs), options.jobs, part)
    os.close(write)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(teller, 0)[1]))


if __name__ == "__main__":
    main()
