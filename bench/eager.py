"""Measures PyTorch and the trainers' engines on the models of model.py, for comparison with memtune.

    python eager.py --export build/bench/model.pt                      # TorchScript, bf16, and inputs.safetensors
    python eager.py --weights build/bench/model.pt --json eager.jsonl  # measures every strategy
    python eager.py --strategy none trl+full --gradients
    python eager.py --strategy none full --model tiny --device cpu --dtype fp32

Each strategy runs in its own process: 4 warm-up steps, a reset of the peak statistics, then 8 timed steps. A time
starts before forward and ends after the loss is read and the device is synchronised. Settings: fused AdamW, lr 1e-4,
gradients set to None, default allocator. The JSON has one line per strategy, with the fields of the trials of `memtune
sweep --json`.
"""

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
import warnings
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from typing import Any, Callable, Dict

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as in memtune's trials: deterministic cuBLAS

import torch

import strategies
from model import MODELS, build, dtype_of, loss_fn, make_batch, takes_images
from peers import MissingPeer
from safetensors_file import save_safetensors
from strategies import Around


def write_model(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, path: str):
    """Writes the model as TorchScript, and next to it the batch, named like forward's argument."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    torch.jit.script(model).save(path)
    inputs = {"x": x, "target": y} if takes_images(model) else {"tok": x}
    save_safetensors(inputs, os.path.join(folder, "inputs.safetensors"))


def export(options):
    """Writes the model and the batch that measure() uses."""
    model = build(options.model, options.length).to(dtype_of(options.dtype))
    write_model(model, *make_batch(model, options.batch, options.length), options.export)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{options.export}: {options.model}, {options.dtype}, {parameters / 1e6:.1f} M parameters, "
          f"{os.path.getsize(options.export) / 1e6:.1f} MB; inputs.safetensors beside it", flush=True)


def load_model(options) -> torch.nn.Module:
    if not options.weights:
        return build(options.model, options.length).to(dtype_of(options.dtype)).to(options.device)
    with torch.device(options.device):  # these random weights are overwritten, so only speed matters
        model = build(options.model, options.length).to(dtype_of(options.dtype))
    model.load_state_dict(torch.jit.load(options.weights, map_location=options.device).state_dict())
    return model


def forward_backward(model, x, y, around: Around) -> torch.Tensor:
    """Frees the logits before backward."""
    with around.step:
        with around.model:
            logits = model(x)
        loss = loss_fn(logits, y)
        del logits
        loss.backward()
    return loss.detach()


def gradients(model, x, y, around: Around) -> Dict[str, torch.Tensor]:
    """Gradients of one batch, on the CPU."""
    torch.manual_seed(1)
    forward_backward(model, x, y, around)
    result = {name: p.grad.cpu() for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return result


def compare(plain: Dict[str, torch.Tensor], other: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    differences = {name: (plain[name].float() - other[name].float()).abs().max().item() for name in plain}
    worst = max(differences, key=lambda name: (differences[name] != differences[name], differences[name]))
    return {"compared": True, "equal": all(torch.equal(plain[name], other[name]) for name in plain), "against": "none",
            "max_abs_difference": differences[worst], "worst": worst}


def synchronize(device: str):
    if device == "cuda":
        torch.cuda.synchronize()


def set_deterministic(on: bool):
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(on)


def apply(name: str, model, x, y, options):
    """The strategy's contexts, and its gradients compared with those of the unchanged model, with deterministic
    kernels."""
    if not options.gradients:
        return strategies.apply(name, model), {"compared": False}
    set_deterministic(True)
    plain = gradients(model, x, y, Around())
    around = strategies.apply(name, model)
    compared = compare(plain, gradients(model, x, y, around))
    set_deterministic(False)
    return around, compared


def timed(step: Callable[[], float], options) -> Dict[str, Any]:
    """Figures of a trial: `options.steps` measured steps after `options.warmup` others. A step returns its loss."""
    on_cuda = options.device == "cuda"
    if on_cuda:
        torch.cuda.empty_cache()
    losses = [step() for _ in range(options.warmup)]
    synchronize(options.device)
    if on_cuda:
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(options.steps):
        start = time.perf_counter()
        losses.append(step())
        synchronize(options.device)
        times.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(times)  # as in memtune: for an even number the mean of the middle two
    peak = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    return {"outcome": "ok", "reason": "",
            "step_ms": {"median": median, "low": min(times), "high": max(times), "samples": times},
            "samples_per_s": options.batch * 1e3 / median, "peak_bytes": peak if on_cuda else None, "loss": losses,
            "device": torch.cuda.get_device_name() if on_cuda else "cpu"}


def measure(name: str, options) -> Dict[str, Any]:
    model = load_model(options)
    x, y = make_batch(model, options.batch, options.length, options.device)
    around, compared = apply(name, model, x, y, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> float:
        loss = forward_backward(model, x, y, around)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return {**timed(step, options), "gradients": compared}


def measure_here(name: str, options) -> Dict[str, Any]:
    """Calls measure(). A failure is a result: out of memory, a missing engine, an error of the engine."""
    signal.alarm(options.limit)  # an engine that hangs ends this process
    warnings.filterwarnings("ignore")
    try:
        package = strategies.package_of(name)
        if name in strategies.TRAINERS and options.device == "cpu":
            raise MissingPeer(f"the engine of {package} needs a CUDA device")
        # DISCO removes its files only at a normal end of the process.
        with tempfile.TemporaryDirectory(dir=options.scratch, ignore_cleanup_errors=True) as tempfile.tempdir:
            return {"package": package, **measure(name, options)}
    except MissingPeer as error:
        return {"outcome": "missing", "reason": str(error)}
    except torch.OutOfMemoryError as error:
        return {"outcome": "device_oom", "reason": str(error).splitlines()[0]}
    except Exception as error:
        return {"outcome": "error", "reason": f"{type(error).__name__}: {error}"[:500]}


def measure_apart(name: str, options) -> Dict[str, Any]:
    """Calls measure_here() in a forked process, so torch is imported once. The parent must not use CUDA."""
    setting = {key: getattr(options, key) for key in ("model", "batch", "length", "dtype", "steps", "warmup")}
    trial = {"strategy": name, "setting": setting, "package": ""}
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
        try:
            return {**trial, **process.submit(measure_here, name, options).result()}
        except BrokenProcessPool:
            return {**trial, "outcome": "crash", "reason": f"the process died, or took over {options.limit} s"}


def line_of(trial: Dict[str, Any]) -> str:
    if trial["outcome"] != "ok":
        return f"{trial['strategy']:16} {trial['outcome']}: {trial['reason']}"
    ms, peak, compared = trial["step_ms"], trial["peak_bytes"], trial["gradients"]
    memory = f" {peak['allocated'] / 2**30:8.3f} GiB, {peak['reserved'] / 2**30:.3f} reserved" if peak else ""
    equal = ""
    if compared["compared"]:
        off = f"differ by {compared['max_abs_difference']:.1e}, most in {compared['worst']}"
        equal = ", gradients " + ("equal" if compared["equal"] else off)
    return f"{trial['strategy']:16} {ms['median']:8.1f} ms ({ms['low']:.1f} to {ms['high']:.1f}){memory}{equal}"


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--strategy", nargs="+", choices=strategies.STRATEGIES, default=list(strategies.STRATEGIES),
                   metavar="NAME", help=f"of {', '.join(strategies.STRATEGIES)}; default: all")
    p.add_argument("--model", default="bench", choices=MODELS)
    p.add_argument("--batch", type=int, default=0, help="default: the model's")
    p.add_argument("--length", type=int, default=0, help="tokens, or pixels of a side; default: the model's")
    p.add_argument("--dtype", default="bf16", choices=("bf16", "fp16", "fp32"))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 8)))
    p.add_argument("--warmup", type=int, default=4)
    p.add_argument("--weights", metavar="FILE", help="take them from an exported model, which is faster")
    p.add_argument("--gradients", action="store_true", help="compare with plain PyTorch's first")
    p.add_argument("--limit", type=int, default=180, help="seconds for a strategy")
    p.add_argument("--scratch", metavar="FOLDER", help="where axolotl-disco writes; default: the system's")
    p.add_argument("--json", metavar="FILE", help="write the measurements here, a line for each strategy")
    p.add_argument("--export", metavar="FILE", help="write the model as TorchScript, and measure nothing")
    options = p.parse_args()
    options.batch = options.batch or MODELS[options.model][2]
    options.length = options.length or MODELS[options.model][3]
    return options


def main() -> int:
    options = parse_arguments()
    if options.export:
        export(options)
        return 0
    outcomes = []
    with open(options.json or os.devnull, "w") as file:
        for name in options.strategy:
            trial = measure_apart(name, options)
            outcomes.append(trial["outcome"])
            print(line_of(trial), flush=True)
            print(json.dumps(trial), file=file, flush=True)
    return 0 if all(outcome in ("ok", "missing") for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
