"""Compares presets with the engines that they emulate. The same tensors must be offloaded in the same order, and
reloaded.

    check_engines.py MEMTUNE [PACKAGE...]      without a name: all

The engines are those of the trainers' packages, unchanged (bench/peers.py), on the benchmark's tiny decoder. They need
an accelerator, so stubs replace streams, events and pinned memory. The check sees which tensors are copied, not when.
The engine of transformers is PyTorch's save_on_cpu around its checkpoints. axolotl's hidden_states checks the device of
the tensors and offloads nothing here. Engines of missing packages or other versions are skipped. The exit code is then
77.
"""

import contextlib
import glob
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
CACHE = os.environ.get("MEMTUNE_CACHE") or os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")) + "/memtune"
sys.path.extend(sorted(glob.glob(f"{CACHE}/trainers/*/lib/python*/site-packages")))  # for their files, after our own

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import peers
import strategies
from model import build, loss_fn, make_batch

BATCH, LENGTH = 2, 64
SKIPPED = 77


ENGINES = {
    "offload:torchtune": ("torchtune", strategies.torchtune),
    "checkpoint:full+offload:torchtune": ("torchtune", strategies.over_full(strategies.torchtune)),
    "offload:trl": ("trl", strategies.trl),
    "checkpoint:full+offload:trl": ("trl", strategies.over_full(strategies.trl)),
    "offload:swift": ("ms_swift", strategies.swift(False)),
    "checkpoint:hf-offload": ("torch", strategies.hf_offload),
}


class Stream:
    """A stub. All its work has already ended."""

    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        pass

    def record_event(self, event=None):
        return self

    def synchronize(self):
        pass


class Alive(TorchDispatchMode):
    """Keeps all results of a forward, so that no address is reused. TRL's engine identifies tensors by address."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.made.append(result)
        return result


class Copies:
    """Bytes of offloaded and reloaded tensors, in order, with the CPU as the device."""

    def __init__(self):
        self.out, self.back = [], []

    @contextlib.contextmanager
    def watched(self):
        copy, to, empties = torch.Tensor.copy_, torch.Tensor.to, ("empty", "empty_like", "empty_strided")
        before = {name: getattr(torch, name) for name in empties}
        pinned = set()

        def pinning(function):
            def made(*args, pin_memory=False, **kwargs):
                tensor = function(*args, **kwargs)
                if pin_memory:
                    pinned.add(tensor.untyped_storage()._cdata)
                    self.keep.append(tensor)
                return tensor

            return made

        def copied(tensor, source, non_blocking=False):
            if tensor.untyped_storage()._cdata in pinned:
                self.out.append(source.numel() * source.element_size())
            return copy(tensor, source)

        def moved(tensor, *args, **kwargs):
            target = args[0] if args else kwargs.get("device")
            if not isinstance(target, (str, torch.device)) or tensor.untyped_storage()._cdata not in pinned:
                return to(tensor, *args, **kwargs)
            self.back.append(tensor.numel() * tensor.element_size())
            return tensor.detach().clone()

        self.keep = []
        torch.Tensor.copy_, torch.Tensor.to = copied, moved
        for name in empties:
            setattr(torch, name, pinning(before[name]))
        try:
            yield
        finally:
            torch.Tensor.copy_, torch.Tensor.to = copy, to
            for name in empties:
                setattr(torch, name, before[name])


def stand_in_for_cuda():
    stream = Stream()
    torch.cuda.Stream = torch.cuda.Event = Stream
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    torch.cuda.current_stream = torch.cuda.default_stream = lambda *args: stream
    torch.cuda.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda *args, **kwargs: torch.device("cpu")
    torch.get_device_module = lambda *args: torch.cuda
    torch.Tensor.is_pinned = lambda tensor: True
    torch.Tensor.record_stream = lambda tensor, stream: None
    load = peers.load

    def loaded(name):
        module = load(name)
        if name == "swift":
            module.get_torch_device = lambda: torch.cuda
        return module

    peers.load = loaded


def run_engine(apply) -> Copies:
    """Returns the copies of the second step."""
    model = build("tiny")
    x, y = make_batch(model, BATCH, LENGTH)
    for step in range(2):
        copies = Copies()
        with copies.watched():
            around = (apply(model) if step == 0 else around) or strategies.Around()
            with around.step:
                with around.model, Alive() as alive:
                    logits = model(x)
                with alive:
                    loss = loss_fn(logits, y)
                del logits
                alive.made.clear()
                loss.backward()
    copies.out = [size for size in copies.out if size > 0]
    copies.back = [size for size in copies.back if size > 0]
    return copies


def run_memtune(memtune, folder, names) -> dict:
    """Returns the copies of one step for each strategy."""
    strategies_flags = [word for name in names for word in ("--strategy", name)]
    subprocess.run([memtune, "sweep", "-q", "--model", f"{folder}/model.pt", "--inputs", f"{folder}/inputs.safetensors",
                    "--loss", "next_token", "--device", "cpu", "--steps", "1", "--warmup", "3", "--rounds", "1",
                    "--out",
                    f"{folder}/run", "--json", f"{folder}/run.json", "--strategy", "none", *strategies_flags],
                   check=True, stdout=subprocess.DEVNULL)
    report = json.loads(Path(folder, "run.json").read_text())
    trials = {trial["strategy"]: trial for trial in report["trials"]}
    return {name: copies_of(memtune, folder, trials[name]) for name in names}


def copies_of(memtune, folder, trial) -> Copies:
    assert trial["outcome"] == "ok", f"{trial['strategy']}: {trial['reason']}"
    assert trial["gradients"]["equal"], f"{trial['strategy']}: its gradients are not those of none"
    trace = f"{folder}/trace.json"
    subprocess.run([memtune, "report", "-q", f"{folder}/run", "--format", "perfetto", "--trial", trial["strategy"],
                    "-o", trace], check=True)
    events = json.loads(Path(trace).read_text())["traceEvents"]
    events = [event for event in events if event.get("cat") == "gpu_memcpy"]
    events.sort(key=lambda event: event["ts"])
    copies = Copies()
    for name, sizes, of_step in (("DtoH", copies.out, "out_bytes"), ("HtoD", copies.back, "in_bytes")):
        total = 0
        for event in events:
            if name in event["name"] and total < trial["transfer"][of_step]:
                sizes.append(event["args"]["bytes"])
                total += sizes[-1]
        assert total == trial["transfer"][of_step], f"{trial['strategy']}: steps do not copy alike"
    return copies


def differ(name, theirs: Copies, ours: Copies) -> bool:
    wrong = False
    for what, a, b in (("out", theirs.out, ours.out), ("back", sorted(theirs.back), sorted(ours.back))):
        if a == b:
            print(f"ok   {name}: {len(a)} tensors {what}, {sum(a)} bytes")
            continue
        wrong = True
        first = next((i for i, pair in enumerate(zip(a, b)) if pair[0] != pair[1]), min(len(a), len(b)))
        print(f"FAIL {name}: {what}, the engine {len(a)} tensors of {sum(a)} bytes, memtune {len(b)} of {sum(b)}; "
              f"from number {first} on {a[first:first + 6]} and {b[first:first + 6]}")
    return wrong


def is_there(package) -> bool:
    try:
        return package == "torch" or peers.version(package) == f"{package} {peers.TESTED[package]}"
    except peers.MissingPeer:
        return False


def main() -> int:
    torch.set_num_threads(1)
    wanted = [name for name, (package, _) in ENGINES.items() if package in sys.argv[2:] or not sys.argv[2:]]
    if not wanted:
        sys.exit(f"no engine is of {', '.join(sys.argv[2:])}")
    here = [name for name in wanted if is_there(ENGINES[name][0])]
    for name in wanted:
        if name not in here:
            print(f"skipped {name}: {ENGINES[name][0]} {peers.TESTED[ENGINES[name][0]]} is not there")
    if not here:
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, str(HERE.parents[1] / "bench/eager.py"), "--export", f"{folder}/model.pt",
                        "--model", "tiny", "--dtype", "fp32", "--device", "cpu", "--batch", str(BATCH), "--length",
                        str(LENGTH)], check=True, stdout=subprocess.DEVNULL, env=environment)
        ours = run_memtune(sys.argv[1], folder, here)
    stand_in_for_cuda()
    failed = [name for name in here if differ(name, run_engine(ENGINES[name][1]), ours[name])]
    return 1 if failed else SKIPPED if len(here) < len(wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
