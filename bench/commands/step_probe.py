"""A training script's own account of its steps: times, losses and peaks, in a JSON file. With --checks it takes more
steps behind the timed ones: one whose allocations are recorded with Python stacks, and some under torch.profiler.

Called by recorded.py; bench/command_records.py compares the file with what memtune measures.
"""

import ast
import bisect
import contextlib
import functools
import gc
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

ENTRIES = 400000  # of the allocator's history of one step
PROFILED = 4  # steps, behind one in which the profiler settles
# Annotations that PyTorch has by itself, and those of the scripts.
RANGES = {"enumerate(DataLoader)": "data", "Optimizer.step#": "update", "forward": "forward", "backward": "backward",
          "evaluation": "evaluation"}
MODULE_PY = torch.nn.modules.module.__file__


class Probe:
    """Encloses the training loop. `begin` and `end` enclose a step, `fetched` follows the wait for its data."""

    def __init__(self, options):
        self.options, self.cuda = options, options.device == "cuda"
        self.recorded = options.steps + 4  # a step that evaluates as little as the last timed one
        self.last = self.recorded + 1 + PROFILED if options.checks else options.steps
        self.step, self.marks, self.losses, self.peaks = 0, [], [], []
        self.ranges = []  # step, name, begin, end
        self.model = self.optimizer = self.profiler = None
        self.before = self.after = None  # snapshots around the recorded step
        self.forward_end_us = self.recorded_forward_end_us = 0
        self.result = {}

    def __enter__(self):
        return self

    def steps(self):
        while self.step < self.last:
            self.begin()
            yield self.step
            self.end()

    # --- marks

    def now(self):
        event = None
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        return time.perf_counter(), event

    def mark(self, name: str):
        self.marks[-1][name] = self.now()

    def begin(self):
        self.step += 1
        if self.options.checks and self.step >= self.recorded:
            self.begin_checks()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        self.marks.append({})
        self.mark("begin")

    @contextlib.contextmanager
    def ranged(self, name: str):
        """A range for the profiler, and by the script's own events."""
        begin = self.now()
        with torch.profiler.record_function(name):
            yield
        self.ranges.append((self.step, name, begin, self.now()))

    def fetched(self):
        self.mark("begin")

    def updating(self):
        self.mark("updating")

    def loss(self, loss):
        """Before its backward."""
        self.losses.append(loss.detach())
        self.forward_end_us = time.time_ns() / 1e3

    def end(self):
        self.mark("end")
        self.peaks.append(self.peak())
        if self.options.checks and self.step >= self.recorded:
            self.end_checks()

    def peak(self) -> list:
        """Bytes of blocks, and of what was asked for."""
        if not self.cuda:
            return [0, 0]
        return [torch.cuda.max_memory_allocated(), torch.cuda.memory_stats().get("requested_bytes.all.peak", 0)]

    # --- checks

    def begin_checks(self):
        if self.cuda:
            torch.cuda.synchronize()
        if self.step == self.recorded and self.cuda:
            self.before = torch.cuda.memory._snapshot()
            torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", clear_history=True,
                                                       max_entries=ENTRIES)
        elif self.step == self.recorded + 1:
            activities = torch.profiler.ProfilerActivity
            self.profiler = torch.profiler.profile(
                activities=[activities.CPU] + ([activities.CUDA] if self.cuda else []))
            self.profiler.start()

    def end_checks(self):
        if self.step == self.recorded:  # while the script holds its modules
            classes = {}
            for name, module in families(self.model):
                classes.setdefault(name, set()).add(forward_class(module))
            self.result["classes"] = {name: sorted(found) for name, found in classes.items()}
        if self.step == self.recorded and self.cuda:
            self.after, self.recorded_forward_end_us = torch.cuda.memory._snapshot(), self.forward_end_us
            torch.cuda.memory._record_memory_history(None)
        elif self.step == self.last:
            if self.cuda:
                torch.cuda.synchronize()
            self.profiler.stop()

    # --- the file

    def __exit__(self, *_):
        if len(self.peaks) < self.step:  # memtune ended the script within this step
            self.peaks.append(self.peak())
            self.result["lasting"] = self.lasting()
        if self.cuda:
            torch.cuda.synchronize()
        spans = [self.spans(i) for i in range(len(self.marks))]
        self.result.update(losses=[each.item() for each in self.losses], peaks=self.peaks, spans=spans)
        if self.after is not None:
            self.result["memory"] = memory_at_peak(self.before, self.after, self.recorded_forward_end_us)
            self.result["memory"]["measured"] = self.peaks[self.recorded - 1][0]
        if self.profiler is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "trace.json"
                self.profiler.export_chrome_trace(str(path))
                self.result["profile"] = shares_of(json.loads(path.read_text())["traceEvents"])
        Path(self.options.out).write_text(json.dumps(self.result))

    def spans(self, i: int) -> dict:
        """Milliseconds of a step: whole, without its wait for data, until its update, and in its ranges."""
        marks, found = self.marks[i], {}
        before = self.marks[i - 1].get("end") if i else None
        for name, begin, end in (("step", before, marks.get("end")), ("work", marks["begin"], marks.get("end")),
                                 ("passes", marks["begin"], marks.get("updating"))):
            if begin and end:
                found[name] = self.ms(begin, end)
        found["ranges"] = {}
        for step, name, begin, end in self.ranges:
            if step == i + 1:
                found["ranges"][name] = found["ranges"].get(name, 0) + self.ms(begin, end)
        return found

    def ms(self, begin, end) -> float:
        return begin[1].elapsed_time(end[1]) if self.cuda else 1e3 * (end[0] - begin[0])

    def lasting(self) -> dict:
        """Bytes of tensors that last, as the script counts them."""
        parameters = list(self.model.parameters())
        states = [each for state in self.optimizer.state.values() for each in state.values()]
        return {"parameters": self.bytes_of(parameters), "gradients": self.bytes_of([p.grad for p in parameters]),
                "optimizer": self.bytes_of(states)}

    def bytes_of(self, tensors) -> int:
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors
                    if isinstance(each, torch.Tensor) and each.is_cuda == self.cuda}
        return sum(storages.values())


# --- memory at the peak, by the stacks of its blocks


def families(model):
    """Names as memtune's: blocks of a list are one, as are a wrapper and what it wraps. Modules outside of the model, as a
    loss, begin with the class of the outermost."""
    modules = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
    inner = {id(child) for each in modules for child in each.children()}
    roots = [("", model)] + [(type(each).__name__, each) for each in modules
                             if id(each) not in inner and each is not model]
    for prefix, root in roots:
        for path, module in root.named_modules(prefix=prefix):
            names = [each for each in path.split(".") if each != "_checkpoint_wrapped_module"]
            yield ".".join("*" if each.isdigit() else each for each in names) or "(model)", module


def forward_class(module) -> str:
    """The class that defines its forward."""
    forward = type(module).forward
    return forward.__module__ + "." + forward.__qualname__.rpartition(".")[0]


@functools.lru_cache(None)
def classes_of(path: str) -> list:
    """First line, last line and name of the classes of a file."""
    names = {getattr(module, "__file__", None): name for name, module in reversed(list(sys.modules.items()))}

    def found(node, outer):
        for each in ast.iter_child_nodes(node):
            name = outer
            if isinstance(each, ast.ClassDef):
                name = outer + "." + each.name
                yield each.lineno, each.end_lineno, name
            yield from found(each, name)

    try:
        return list(found(ast.parse(Path(path).read_text()), names.get(path, path)))
    except (OSError, SyntaxError):  # "<string>"
        return []


def class_at(path: str, line: int) -> str:
    inner = [name for first, last, name in classes_of(path) if first <= line <= last]
    return inner[-1] if inner else ""


def module_class(frames: list) -> str:
    """The class of the innermost module that a stack runs; frames begin with the innermost."""
    call = next((i for i, frame in enumerate(frames) if frame["name"] == "_call_impl"), 0)
    for frame in reversed(frames[:call]):
        if frame["name"] == "forward" and class_at(frame["filename"], frame["line"]):
            return class_at(frame["filename"], frame["line"])
    return ""


def path_of(frames: list) -> str:
    """A stack as text, without the frames of Module: a module with hooks has one more."""
    from torch.cuda import _memory_viz

    texts = _memory_viz._frames_fmt([each for each in frames if each["filename"] != MODULE_PY], reverse=True)
    return ";".join("".join("_" if each in "; " else each for each in text) for text in texts)


def memory_at_peak(before: dict, after: dict, forward_end_us: float) -> dict:
    """Replays the allocations of a step forwards from the blocks that were live before it. `modules` is without what
    the forward freed."""
    device = torch.cuda.current_device()
    live = {block["address"]: (block.get("requested_size", block["size"]), ()) for segment in before["segments"]
            if segment["device"] == device for block in segment["blocks"] if block["state"] == "active_allocated"}
    events = [each for each in after["device_traces"][device] if each["action"] in ("alloc", "free_requested")]
    held = top = sum(-(-size // 512) * 512 for size, _ in live.values())
    peak = 0  # number of events until then
    for i, event in enumerate(events):
        held += -(-event["size"] // 512) * 512 * (1 if event["action"] == "alloc" else -1)
        if held > top:
            top, peak = held, i + 1
    for event in events[:peak]:
        if event["action"] == "alloc":
            live[event["addr"]] = (event["size"], event.get("frames") or ())
        else:
            live.pop(event["addr"], None)
    freed = set()  # addresses, by the forward behind the peak
    for event in events[peak:]:
        if event["time_us"] <= forward_end_us and event["action"] == "free_requested":
            freed.add(event["addr"])
    modules, paths = {}, {}
    for address, (size, frames) in live.items():
        if frames:
            name, path = module_class(frames), path_of(frames)
            paths[path] = paths.get(path, 0) + size
            if address not in freed:
                modules[name] = modules.get(name, 0) + size
    return {"replayed": top, "modules": modules, "paths": paths, "events": len(events)}


# --- shares of a step


def shares_of(events: list) -> dict:
    """Of the steps between the ends of updates. A range begins in the stream when the device has ended all that was
    launched before it."""
    launched = {each["args"]["correlation"]: each["ts"] for each in events
                if each.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in each.get("args", {})}
    ran = sorted((launched[each["args"]["correlation"]], each["ts"] + each["dur"]) for each in events
                 if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
                 and each["args"].get("correlation") in launched)
    begins, ends = [begin for begin, _ in ran], []
    for _, end in ran:
        ends.append(max(end, ends[-1] if ends else end))

    def in_stream(moment):
        i = bisect.bisect_right(begins, moment)
        return max(moment, ends[i - 1] if i else moment)

    ranges = []
    for each in events:
        if each.get("cat") == "user_annotation" and each.get("ph") == "X":
            name = next((kind for text, kind in RANGES.items() if each["name"].startswith(text)), None)
            if name:
                ranges.append((in_stream(each["ts"]), in_stream(each["ts"] + each["dur"]), name))
    updates = sorted(end for _, end, name in ranges if name == "update")
    first, last = updates[0], updates[-1]
    sums = {}
    for begin, end, name in ranges:
        if begin >= first and end <= last:
            sums[name] = sums.get(name, 0) + end - begin
    sums["rest"] = last - first - sum(sums.values())
    return {"shares": {name: took / (last - first) for name, took in sums.items()},
            "step_ms": (last - first) / 1e3 / (len(updates) - 1), "kernels": len(ran)}
