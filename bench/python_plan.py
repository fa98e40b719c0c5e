"""Compares exported plans with PyTorch's own strategies, eager and compiled, in one process. Prints each row at once.

    python bench/python_plan.py bench/plans/dear-13.json bench/plans/floor.json --memtune build/release/bin/memtune \\
        --limits 21.6 12.4 --json python_plan.json --time-limit 480
    python bench/python_plan.py planned.py --weights build/bench/model.pt --eager --only full planned --rounds 2
    python bench/python_plan.py checkpoint:cheap --memtune build/ci/bin/memtune --model tiny --dtype fp32 --device cpu

A plan file or a strategy is swept and exported first. A file of `memtune export --trainer python` is used unchanged.
The first plan also runs compiled, at each of --budgets; for files, --compiled names the one that `export --compile`
wrote. The bytes that its blocks may keep on the device then change by the difference between the budget and its own
peak. Rows are in order of importance. No row starts after --time-limit.

For a row the strategy is applied, runs `--warmup` steps and `--steps` timed ones with a device synchronise each, and is
removed. Gradients of one batch are compared with those of `none`. Eager rows use deterministic kernels for that;
compiled kernels round differently. save-on-cpu is torch's own around full checkpoints. Its copies are synchronous.
"""

import argparse
import contextlib
import copy
import gc
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import strategies
from eager import compare, forward_backward, gradients, load_model, set_deterministic, synchronize
from model import MODELS, make_batch
from strategies import Around


GIB = 1 << 30
BUDGETS = (22.5, 21.4, 20.3, 17.1, 15.1, 13.6, 12.25)  # for the model `bench` at its default batch


class Row(NamedTuple):
    name: str
    make: Callable  # model -> context in which the strategy applies
    compiled: bool = False
    limit: Optional[float] = None  # GiB; the most that its peak may be


def over_full(model: torch.nn.Module):
    """torch.compile over checkpointed layers."""
    strategies.checkpoint_layers(model.layers)
    for layer in model.layers:
        layer.compile()


@contextlib.contextmanager
def own(change: Callable, model: torch.nn.Module) -> Iterator[Around]:
    """One of strategies.py. They change the layers permanently, so their changes are undone here."""
    import torch._functorch.config as functorch
    torch._dynamo.reset()  # it does not notice a change of the budget
    try:
        yield change(model) or Around()
    finally:
        functorch.activation_memory_budget = 1.0
        for layer in model.layers:
            layer.__dict__.pop("forward", None)
            layer._compiled_call_impl = None


@contextlib.contextmanager
def save_on_cpu(model: torch.nn.Module) -> Iterator[Around]:
    with own(strategies.full, model):
        on_cuda = next(model.parameters()).is_cuda
        yield Around(model=torch.autograd.graph.save_on_cpu(pin_memory=on_cuda))


@contextlib.contextmanager
def planned(module, data: Dict[str, Any], model: torch.nn.Module) -> Iterator[Around]:
    torch._dynamo.reset()
    module.PLAN = data
    plan = module.apply(model)
    model.moved_bytes = lambda: plan.streams.moved_bytes
    try:
        yield Around()
    finally:
        del model.moved_bytes
        plan.remove()


def exported(path: str, number: int):
    spec = importlib.util.spec_from_file_location(f"memtune_plan_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def export(options, folder: str) -> List[str]:
    """Files of the plans. memtune sweeps and exports those that are not files yet."""
    wanted = [p for p in options.plan if not p.endswith(".py")]
    if not wanted:
        return options.plan
    here = os.path.dirname(os.path.abspath(__file__))
    run, model, inputs = [os.path.join(folder, name) for name in ("run", "model.pt", "inputs.safetensors")]
    size = ["--model", options.model, "--batch", str(options.batch), "--length", str(options.length)]
    subprocess.run([sys.executable, os.path.join(here, "eager.py"), "--export", model, *size, "--device",
                    options.device, "--dtype", options.dtype], check=True, stdout=subprocess.DEVNULL)
    options.weights = options.weights or model
    plans = [["--plan", p] if p.endswith(".json") else ["--strategy", p] for p in wanted]
    subprocess.run([options.memtune, "sweep", "--model", model, "--inputs", inputs, "--loss", "next_token", "--device",
                    options.device, "--strategy", "none", *sum(plans, []), "--out", run, "--steps", "2",
                    "--rounds", "1"], check=True, stdout=sys.stderr)
    files = []
    for path in options.plan:
        if path in wanted:
            name = os.path.splitext(os.path.basename(path))[0] if path.endswith(".json") else path
            path = os.path.join(folder, name.replace(":", "-") + ".py")
            write = [options.memtune, "export", run, "--trainer", "python", "--strategy", name, "-o"]
            subprocess.run([*write, path], check=True)
            if not files and not options.compiled:
                options.compiled = os.path.join(folder, "compiled.py")
                subprocess.run([*write, options.compiled, "--compile"], check=True)
        files.append(path)
    return files


def rows(options, files: List[str]) -> List[Row]:
    """The rows, in order of importance."""
    result = [Row("none", lambda m: own(strategies.none, m))]
    modules = [exported(path, number) for number, path in enumerate(files)]
    for path, module, limit in zip(files, modules, options.limits + [None] * len(files)):
        name, data = os.path.splitext(os.path.basename(path))[0], module.PLAN
        result.append(Row(name, lambda m, module=module, data=data: planned(module, data, m), False, limit))
    if options.compiled and not options.eager:
        compiled = exported(options.compiled, len(files))
        first = compiled.PLAN
        default = BUDGETS if options.model == "bench" else [share * first["peak_bytes"] / GIB for share in (1.0, 0.9)]
        for budget in options.budgets or default:
            data = copy.deepcopy(first)
            more = int(budget * GIB) - first["peak_bytes"]
            data["compile"]["left_bytes"] = max(0, data["compile"]["left_bytes"] + more)
            data["min_bytes"] = data["min_bytes"] if options.device == "cuda" else 0  # so a tiny model offloads some
            result.append(Row(f"compiled at {budget:.4g}", lambda m, data=data: planned(compiled, data, m), True,
                              budget))
    known = {"compile": strategies.compiled(), "compile over full": over_full, "full": strategies.full,
             "compile-0.5": strategies.compiled(0.5), "compile-0.1": strategies.compiled(0.1), "op": strategies.op,
             "op-matmul": strategies.op_matmul}
    for name, change in known.items():
        if not (options.eager and "compile" in name):
            result.append(Row(name, lambda m, change=change: own(change, m), "compile" in name))
    return result + [Row("save-on-cpu", save_on_cpu)]


def free(options):
    gc.collect()
    if options.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def turn(row: Row, model, batch, optimizer, plain, options) -> Dict[str, Any]:
    """Figures of a row, and its gradients in its first turn, for which `plain` is given."""
    found = {}
    if plain is not None and not row.compiled:
        set_deterministic(True)
        try:
            with row.make(model) as around:
                found = compared(gradients(model, *batch, around), plain)
        finally:
            set_deterministic(False)
    start = time.perf_counter()
    with row.make(model) as around:

        def step() -> float:
            loss = forward_backward(model, *batch, around)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.item()

        if plain is not None and row.compiled:  # no second compilation for deterministic kernels
            found = compared(gradients(model, *batch, around), plain)
        for _ in range(options.warmup):
            step()
        synchronize(options.device)
        begun = time.perf_counter() - start
        free(options)
        times, moved = [], getattr(model, "moved_bytes", lambda: 0)()
        for _ in range(options.steps):
            start = time.perf_counter()
            step()
            synchronize(options.device)
            times.append((time.perf_counter() - start) * 1e3)
        peak = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
        moved = (getattr(model, "moved_bytes", lambda: 0)() - moved) // options.steps
    free(options)
    return {**found, "ms": times, "peak": peak, "moved": moved, "first_s": begun}


def compared(found: Dict[str, Any], plain: Dict[str, Any]) -> Dict[str, Any]:
    """Compares gradients with those of `none`. The first row stores them in `plain`."""
    if not plain:
        plain.update(found)
    return compare(plain, found)


def line(row: Row, result: Dict[str, Any], none: Dict[str, Any]) -> str:
    if "error" in result:
        return f"{row.name:20} {result['error']}"
    times, base = result["ms"], statistics.median(none["ms"])
    median, peak = statistics.median(times), result["peak"]
    kept = "" if row.limit is None or not peak else " met" if peak <= row.limit * GIB else " OVER"
    limit = f"{row.limit:8.4g}" if row.limit else "       –"
    gradients = "equal" if result["equal"] else f"differ by {result['max_abs_difference']:.1e}"
    spread = f"({min(times):.1f} to {max(times):.1f})"
    return (f"{row.name:20} {median:8.1f} {spread:18} {median / base:6.2f} {f'{peak / GIB:.2f}' if peak else '–':>8} "
            f"{limit}{kept:5} {result['moved'] / GIB:8.4f}  {'reference' if row.name == 'none' else gradients}")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plan", nargs="*", help="files of memtune export --trainer python, plan files, strategies")
    p.add_argument("--memtune", default="memtune", help="the program that sweeps and exports what is no file yet")
    p.add_argument("--limits", type=float, nargs="+", default=[], help="GiB that the plans are to keep, in their order")
    p.add_argument("--budgets", type=float, nargs="+", help="GiB, of the compiled rows")
    p.add_argument("--model", default="bench", choices=MODELS)
    p.add_argument("--batch", type=int, default=0)
    p.add_argument("--length", type=int, default=0)
    p.add_argument("--dtype", default="bf16", choices=("bf16", "fp16", "fp32"))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--weights", metavar="FILE", help="take them from an exported model, which is faster")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--compiled", metavar="FILE", help="of export --trainer python --compile, for plans that are files")
    p.add_argument("--eager", action="store_true", help="nothing compiled")
    p.add_argument("--only", nargs="+", help="these, beside none")
    p.add_argument("--time-limit", type=float, default=1e9, help="seconds behind which no row begins")
    p.add_argument("--json", metavar="FILE", help="written anew behind each row")
    options = p.parse_args()
    options.batch = options.batch or MODELS[options.model][2]
    options.length = options.length or MODELS[options.model][3]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = export(options, folder)
        todo = [row for row in rows(options, files) if not options.only or row.name in ("none", *options.only)]
        model = load_model(options)
    batch = make_batch(model, options.batch, options.length, options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)  # rows are compared at the same weights
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(f"{device}, torch {torch.__version__}, {options.model} B{options.batch} T{options.length} {options.dtype}, "
          f"{options.rounds} x {options.steps} steps")
    print(f"{'strategy':20} {'step ms':>8} {'':18} {'× none':>6} {'peak GiB':>8} {'limit':>8}      {'moved':>8}  "
          "gradients", flush=True)
    results: Dict[str, Dict[str, Any]] = {}
    plain: Dict[str, Any] = {}
    for number in range(options.rounds):
        for row in todo:
            if "error" in results.get(row.name, {}):
                continue
            if time.monotonic() - began > options.time_limit:
                taken: Dict[str, Any] = {"error": f"not run: {options.time_limit:.0f} s are over"}
            else:
                try:
                    taken = turn(row, model, batch, optimizer, plain if number == 0 else None, options)
                except Exception as error:  # out of memory, or a compiler's error: a line of the table
                    taken = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
            model.zero_grad(set_to_none=True)
            old = results.setdefault(row.name, {})
            taken["ms"] = old.get("ms", []) + taken.get("ms", [])
            taken["peak"] = max(filter(None, (old.get("peak"), taken.get("peak"))), default=None)
            old.update(taken, limit=row.limit)
            print(line(row, old, results["none"]), flush=True)
            if options.json:
                with open(options.json + ".part", "w") as file:
                    json.dump({"device": device, "options": vars(options), "results": results}, file, indent=1)
                os.replace(options.json + ".part", options.json)
    missed = [row.name for row in todo if row.limit and (results[row.name].get("peak") or 0) > row.limit * GIB]
    if missed:
        print("over their limit: " + ", ".join(missed))
    return 1 if missed or any("error" in result for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
