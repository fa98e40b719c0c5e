"""Exported plans beside PyTorch's own ways, taking turns on one model in one process; prints a table.

    memtune sweep --model build/bench/model.pt --inputs build/bench/inputs.safetensors --loss next_token \\
        --strategy none --plan bench/plans/dear-13.json --out run
    memtune export run --trainer python --strategy dear-13 -o dear_13.py
    python bench/python_plan.py dear_13.py
    python bench/python_plan.py tiny.py --model tiny --dtype fp32 --device cpu --rounds 2

Each turn: the strategy is put to work, `--warmup` steps, `--steps` timed ones each behind a device synchronise, and it
is taken away again. Gradients are those of one batch against `none`'s under deterministic kernels; compiled kernels
round otherwise. save-on-cpu is torch's own, around full checkpoints: copies that wait, as the trainers' first engines.
"""

import argparse
import contextlib
import gc
import importlib.util
import json
import os
import statistics
import time
from typing import Any, Callable, Dict, Iterator

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import strategies
from eager import compare, forward_backward, gradients, load_model, set_deterministic, synchronize
from model import MODELS, make_batch
from strategies import Around


@contextlib.contextmanager
def own(name: str, model: torch.nn.Module) -> Iterator[Around]:
    """One of strategies.py, which change the layers for good: what they set is taken back."""
    import torch._functorch.config as functorch
    torch._dynamo.reset()  # it does not see that the budget has changed
    try:
        yield strategies.apply(name, model)
    finally:
        functorch.activation_memory_budget = 1.0
        for layer in model.layers:
            layer.__dict__.pop("forward", None)
            layer._compiled_call_impl = None


@contextlib.contextmanager
def save_on_cpu(model: torch.nn.Module) -> Iterator[Around]:
    with own("full", model):
        on_cuda = next(model.parameters()).is_cuda
        yield Around(model=torch.autograd.graph.save_on_cpu(pin_memory=on_cuda))


def exported(path: str, number: int):
    spec = importlib.util.spec_from_file_location(f"memtune_plan_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def planned(module, model: torch.nn.Module, compiled: bool) -> Iterator[Around]:
    torch._dynamo.reset()
    plan = module.apply(model, compile=compiled)
    try:
        yield Around()
    finally:
        plan.remove()


def variants(options) -> Dict[str, Callable]:
    names = ["none", "op-matmul", "op", "full"] + ([] if options.eager else ["compile", "compile-0.5", "compile-0.1"])
    result = {name: lambda model, name=name: own(name, model) for name in names}
    result["save-on-cpu"] = save_on_cpu
    for number, path in enumerate(options.plan):
        module = exported(path, number)
        name = os.path.basename(path).removesuffix(".py")
        for compiled in [False] if options.eager else [False, True]:
            result[name + (" compiled" if compiled else "")] = (
                lambda model, module=module, compiled=compiled: planned(module, model, compiled))
    return result


def free(options):
    gc.collect()
    if options.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def turn(make: Callable, model, batch, optimizer, options) -> Dict[str, Any]:
    with make(model) as around:

        def step() -> float:
            loss = forward_backward(model, *batch, around)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.item()

        for _ in range(options.warmup):
            step()
        synchronize(options.device)
        free(options)
        times = []
        for _ in range(options.steps):
            start = time.perf_counter()
            step()
            synchronize(options.device)
            times.append((time.perf_counter() - start) * 1e3)
        peak = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
    free(options)
    return {"ms": times, "peak": peak}


def compared(make: Callable, model, batch, plain) -> Dict[str, Any]:
    set_deterministic(True)
    try:
        with make(model) as around:
            found = gradients(model, *batch, around)
    finally:
        set_deterministic(False)
    return compare(plain or found, found) | {"gradients": found}


def tried(work: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    """What fails is a line of the table."""
    try:
        return work()
    except Exception as error:  # out of memory, a compiler's
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def line(name: str, result: Dict[str, Any], none: Dict[str, Any]) -> str:
    if "error" in result:
        return f"{name:24} {result['error']}"
    times, base = result["ms"], statistics.median(none["ms"])
    median = statistics.median(times)
    peak = f"{result['peak'] / 2**30:8.2f}" if result["peak"] else "       –"
    gradients = "equal" if result["equal"] else f"differ by {result['max_abs_difference']:.1e}"
    return (f"{name:24} {median:8.1f} ({min(times):.1f} to {max(times):.1f}) {median / base:6.2f} {peak}  "
            f"{'reference' if name == 'none' else gradients}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plan", nargs="*", help="files of memtune export --trainer python")
    p.add_argument("--model", default="bench", choices=MODELS)
    p.add_argument("--batch", type=int, default=0)
    p.add_argument("--length", type=int, default=0)
    p.add_argument("--dtype", default="bf16", choices=("bf16", "fp16", "fp32"))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--weights", metavar="FILE", help="take them from an exported model, which is faster")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--eager", action="store_true", help="nothing compiled")
    p.add_argument("--only", nargs="+", help="these, beside none")
    p.add_argument("--json", metavar="FILE")
    options = p.parse_args()
    options.batch = options.batch or MODELS[options.model][2]
    options.length = options.length or MODELS[options.model][3]
    model = load_model(options)
    batch = make_batch(model, options.batch, options.length, options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    chosen = {n: v for n, v in variants(options).items() if not options.only or n in ("none", *options.only)}
    results: Dict[str, Dict[str, Any]] = {}
    plain = None
    for name, make in chosen.items():
        results[name] = tried(lambda: compared(make, model, batch, plain))
        plain = plain or results[name]["gradients"]
        results[name].pop("gradients", None)
        model.zero_grad(set_to_none=True)
    for _ in range(options.rounds):
        for name, make in chosen.items():
            if "error" in results[name]:
                continue
            taken = tried(lambda: turn(make, model, batch, optimizer, options))
            model.zero_grad(set_to_none=True)
            taken["ms"] = results[name].get("ms", []) + taken.get("ms", [])
            taken["peak"] = max(filter(None, (results[name].get("peak"), taken.get("peak"))), default=None)
            results[name].update(taken)
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(f"{device}, torch {torch.__version__}, {options.model} B{options.batch} T{options.length} {options.dtype}, "
          f"{options.rounds} rounds of {options.steps} steps")
    print(f"{'strategy':24} {'step ms':>8} {'':19} {'× none':>6} {'peak GiB':>8}  gradients")
    for name, result in results.items():
        print(line(name, result, results["none"]))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": device, "options": vars(options), "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
