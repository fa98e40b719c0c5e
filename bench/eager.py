"""Plain PyTorch on the models of model.py: what memtune is compared with.

    python eager.py --export build/bench/model.pt                      # TorchScript, bf16, and inputs.safetensors
    python eager.py --json eager.json                                  # measures every strategy
    python eager.py --strategy none full --model tiny --device cpu --dtype fp32

Each strategy runs in a process of its own: 4 warm-up steps, then the peak statistics are reset and 8 steps timed, each
from before the forward to after a device synchronise behind the loss read-out; fused AdamW, lr 1e-4, gradients set to
None, default allocator. The JSON has the fields that `memtune sweep --json` has, so compare.py reads both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any, Dict

import torch

import strategies
from model import MODELS, ConvNet, build, dtype_of, loss_fn, make_batch
from safetensors_file import save_safetensors
from torchtune_engine import MissingEngine


def export(options):
    """The model as TorchScript and the batch that measure() uses, named as forward's argument, beside it."""
    model = build(options.model, options.length).to(dtype_of(options.dtype))
    x, y = make_batch(model, options.batch, options.length)
    folder = os.path.dirname(os.path.abspath(options.export))
    os.makedirs(folder, exist_ok=True)
    torch.jit.script(model).save(options.export)
    inputs = {"x": x, "target": y} if isinstance(model, ConvNet) else {"tok": x}
    save_safetensors(inputs, os.path.join(folder, "inputs.safetensors"))
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{options.export}: {options.model}, {options.dtype}, {parameters / 1e6:.1f} M parameters, "
          f"{os.path.getsize(options.export) / 1e6:.1f} MB; inputs.safetensors beside it", flush=True)


def forward_backward(model, x, y, context) -> torch.Tensor:
    """The context is around the model only, as torchtune's recipes have it. The logits die before the backward."""
    with context:
        logits = model(x)
    loss = loss_fn(logits, y)
    del logits
    loss.backward()
    return loss.detach()


def synchronize(device: str):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(name: str, options) -> Dict[str, Any]:
    on_cuda = options.device == "cuda"
    model = build(options.model, options.length).to(dtype_of(options.dtype)).to(options.device)
    x, y = make_batch(model, options.batch, options.length, options.device)
    context = strategies.apply(name, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> float:
        loss = forward_backward(model, x, y, context)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

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
    median = statistics.median_high(times)
    peak = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    return {"outcome": "ok", "step_ms": {"median": median, "low": min(times), "high": max(times), "samples": times},
            "samples_per_s": options.batch * 1e3 / median, "peak_bytes": peak if on_cuda else None, "loss": losses}


def measure_here(name: str, options) -> Dict[str, Any]:
    """measure(), whose failure is a result: out of memory, a missing engine."""
    trial = {"strategy": name, "reason": ""}
    if name == "torchtune+full" and options.device == "cpu":
        return {**trial, "outcome": "missing", "reason": "torchtune's engine needs a CUDA device"}
    try:
        return {**trial, **measure(name, options)}
    except torch.OutOfMemoryError as error:
        return {**trial, "outcome": "device_oom", "reason": str(error).splitlines()[0]}
    except MissingEngine as error:
        return {**trial, "outcome": "missing", "reason": str(error)}


def measure_apart(name: str, options) -> Dict[str, Any]:
    """measure_here() in a process of its own."""
    command = [sys.executable, os.path.abspath(__file__), "--one", name]
    for key in ("model", "batch", "length", "dtype", "device", "steps", "warmup"):
        command += [f"--{key}", str(getattr(options, key))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return {"strategy": name, "outcome": "crash", "reason": f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def line_of(trial: Dict[str, Any]) -> str:
    if trial["outcome"] != "ok":
        return f"{trial['strategy']:16} {trial['outcome']}: {trial['reason']}"
    peak = trial["peak_bytes"]
    memory = f"{peak['allocated'] / 2**30:8.3f} GiB, {peak['reserved'] / 2**30:.3f} reserved" if peak else ""
    ms = trial["step_ms"]
    return f"{trial['strategy']:16} {ms['median']:8.1f} ms ({ms['low']:.1f} to {ms['high']:.1f}) {memory}"


def setting(options) -> Dict[str, Any]:
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    return {"model": options.model, "batch": options.batch, "length": options.length, "dtype": options.dtype,
            "device": device, "steps": options.steps, "warmup": options.warmup, "torch": torch.__version__,
            "cuda": torch.version.cuda}


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--strategy", nargs="+", choices=strategies.STRATEGIES, default=list(strategies.STRATEGIES),
                   metavar="NAME", help=f"of {', '.join(strategies.STRATEGIES)}; default: all")
    p.add_argument("--model", default="bench", choices=MODELS)
    p.add_argument("--batch", type=int, default=0, help="default: the model's")
    p.add_argument("--length", type=int, default=0, help="tokens, or pixels of a side; default: the model's")
    p.add_argument("--dtype", default="bf16", choices=("bf16", "fp16", "fp32"))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--warmup", type=int, default=4)
    p.add_argument("--json", metavar="FILE", help="write the measurements here")
    p.add_argument("--export", metavar="FILE", help="write the model as TorchScript, and measure nothing")
    p.add_argument("--one", choices=strategies.STRATEGIES, help=argparse.SUPPRESS)
    options = p.parse_args()
    options.batch = options.batch or MODELS[options.model][2]
    options.length = options.length or MODELS[options.model][3]
    if options.device == "cuda" and not options.export and not torch.cuda.is_available():
        p.error("no CUDA device; --device cpu measures times without one")
    return options


def main() -> int:
    options = parse_arguments()
    if options.export:
        export(options)
        return 0
    if options.one:
        print(json.dumps(measure_here(options.one, options)))
        return 0
    trials = []
    for name in options.strategy:
        trials.append(measure_apart(name, options))
        print(line_of(trials[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"setting": setting(options), "trials": trials}, file, indent=1)
    return 0 if all(t["outcome"] in ("ok", "missing") for t in trials) else 1


if __name__ == "__main__":
    sys.exit(main())
