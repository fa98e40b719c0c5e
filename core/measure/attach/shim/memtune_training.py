"""Records what a process trains, step by step: one JSON object per line, one file per process that trains."""

import os
import sys

import memtune_forwards
import memtune_growth
import memtune_losses
import memtune_oom
import memtune_parts
import memtune_periods
import memtune_process
import memtune_shares
import memtune_timeline


class Training:
    """The training of this process. The first record creates its file, so a process that trains nothing has none."""

    def __init__(self):
        self.warmup, self.steps, self.traced = (int(n) for n in os.environ["MEMTUNE_ATTACH_STEPS"].split("+"))
        self.folder = os.environ["MEMTUNE_ATTACH"]
        self.over = False
        self.raised = None  # the exception that ended the script, once recorded
        self.batches = self.device_memory = self.applying = None
        self.cap_again = None  # limits this process's memory on its device
        self.forwards = memtune_forwards.Forwards(self)
        self.oom = memtune_oom.OutOfMemoryBreakdown(self)
        self.growth = memtune_growth.Growth(self)
        self.shares = memtune_shares.Shares(self)
        self.reset()

    def reset(self):
        """Also called in a forked process, because the steps of its parent are not its own."""
        self.pid = os.getpid()
        self.step = 0  # number of steps that have ended
        self.first = None  # the optimizer that steps first in a training step
        self.ending = None  # the one that steps last; None until the first one steps again
        self.latest = None  # until then: the optimizer that stepped last, and the moment and counts after it
        self.calls = 0  # number of step() calls, of any optimizer
        self.measured = self.steps  # more if steps differ
        self.periods = memtune_periods.Periods(self.steps)
        self.trained, self.without_gradient = set(), set()  # id() of parameters, at the first step of their optimizer
        self.backwards = self.counted_backwards = self.depth = 0
        self.last = None  # moment at which the current step began
        self.losses, self.updates, self.update_began = [], [], None
        self.losses_before_update = None  # how many, while an optimizer steps
        self.saves_s = 0
        self.saving = False
        self.pending = []  # steps that the device has not finished
        self.dtype = None
        self.timeline = None  # set while steps are traced
        self.forwards.reset()
        self.oom.reset()
        self.shares.reset()
        if self.batches:
            self.batches.reset()

    # --- records

    def write(self, **record):
        import json

        # Opened for each record: a script may close all descriptors, and its next file would get the same number.
        path = os.path.join(self.folder, "%d.jsonl" % os.getpid())
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            os.write(file, (json.dumps(record) + "\n").encode())
        finally:
            os.close(file)

    def note(self, text):
        self.write(record="note", text=text)

    def exception(self, kind, value):
        import time

        self.raised = value
        self.flush_held()
        self.oom.flush()
        if not self.over and issubclass(kind, Exception):
            text = str(value).encode("utf-8", "replace").decode()
            if len(text) > 6000:  # the end of a traceback has the reason; an allocator's message may be long
                text = text[:1500] + "\n" + text[-4500:]
            pinned = memtune_oom.pinned_memory() if "CUDA error: out of memory" in text else {}
            self.write(record="exception", time_s=time.time(), type=kind.__name__, text=text, **pinned)

    def flush_held(self):
        """When the script ends by itself."""
        if self.pending and self.pid == os.getpid():
            self.flush(True, hold=False)

    def write_process(self):
        import torch

        rank, world = memtune_process.rank_and_world()
        cuda = torch.cuda.is_initialized()
        self.write(record="process", pid=self.pid, rank=rank, world=world, python=sys.version.split()[0],
                   torch=str(torch.__version__), cuda=cuda, dtype=self.dtype or "",
                   device=torch.cuda.get_device_name() if cuda else "",
                   data=self.batches.data if self.batches else None)

    # --- moments: of the host, and with CUDA an event in its stream, without waiting for it

    @staticmethod
    def now():
        import time

        import torch

        event = None
        if torch.cuda.is_initialized():
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        return time.perf_counter(), event

    @staticmethod
    def ms_between(begin, end):
        if begin[1] is None or end[1] is None:
            return (end[0] - begin[0]) * 1e3
        return begin[1].elapsed_time(end[1])

    # --- called by the hooks

    reading = staticmethod(memtune_losses.reading)

    def begin_backward(self, tensors, grad_tensors):
        self.check_fork()
        self.depth += 1
        if self.depth > 1 or self.over:  # the backward of a checkpointed block
            return
        self.backwards += 1
        self.forwards.begin_backward()
        self.shares.begin_backward()
        if self.batches:
            self.batches.begin_backward()
        self.oom.begin_backward()
        if self.timeline is not None:
            self.timeline.begin_backward()
        root = tensors if not isinstance(tensors, (list, tuple)) else tensors[0] if len(tensors) == 1 else None
        if root is None or grad_tensors is not None:
            return
        if self.losses_before_update not in (None, len(self.losses)):  # a closure that its optimizer calls again
            return
        if self.dtype is None:
            self.dtype = memtune_process.least_precise(root)
        self.losses.append(memtune_losses.Loss(root, getattr(root, "_memtune_loss", None)))

    def end_backward(self):
        self.depth -= 1
        if self.depth == 0 and not self.over:
            self.forwards.end_backward()
            self.shares.end_backward(self.update_began is not None)
        if self.timeline is not None and self.depth == 0:
            self.timeline.end_backward(self.update_began is not None)
        if self.update_began is not None and self.depth == 0:
            self.update_began = self.now()  # a closure: what came before is no update

    def created(self, optimizer):
        if self.step == 0:
            self.forwards.watch(optimizer)
            self.shares.created(optimizer)
        self.oom.created(optimizer)

    def begin_update(self):
        self.check_fork()
        self.forwards.begin_update()
        self.shares.begin_update()
        if self.applying is not None:
            self.applying.check()
        if self.timeline is not None:
            self.timeline.begin_update()
        # With an optimizer for each parameter, the clock would take longer than the update.
        self.update_began = self.now() if len(self.updates) < 8 else None
        self.losses_before_update = len(self.losses)

    def end_update(self, optimizer):
        self.calls += 1
        if self.step < 2:
            self.count_gradients(optimizer)
        if self.update_began is not None:
            self.updates.append((self.update_began, self.now()))
        self.update_began = self.losses_before_update = None
        self.shares.end_update()
        if self.timeline is not None:
            self.timeline.end_update()
        if self.ends_step(optimizer):
            self.end_step(False)

    def skipped(self, optimizer):
        if self.ends_step(optimizer):
            self.end_step(True)

    def saved(self, seconds, size):
        if self.step == 0 or self.over:
            return
        self.saves_s += seconds
        self.write(record="save", step=self.step, ms=seconds * 1e3, bytes=size)

    def check_fork(self):
        if self.pid != os.getpid():
            self.reset()

    def count_gradients(self, optimizer):
        """Which parameters have no gradient at their first update. Later it may be zero instead of none."""
        for group in optimizer.param_groups:
            for each in group["params"]:
                if each.requires_grad and id(each) not in self.trained:
                    self.trained.add(id(each))
                    if each.grad is None:
                        self.without_gradient.add(id(each))

    def write_gradients(self):
        if self.without_gradient:
            named = (name for root in memtune_parts.find_roots() for name, each in root.named_parameters()
                     if id(each) in self.without_gradient)
            self.write(record="gradients", trained=len(self.trained), without=len(self.without_gradient),
                       names=[name for name, _ in zip(named, range(3))])
        self.trained = self.without_gradient = set()

    def ends_step(self, optimizer):
        """True if this optimizer is the last of those that step in turn, after another backward (it may step group by
        group). Until the first one steps again, the first step ends with it."""
        import weakref

        if self.over:
            raise SystemExit(0)
        first = self.first() if self.first is not None else None
        ending = self.ending() if self.ending is not None else None
        if first is None or (self.ending is not None and ending is None):  # the script dropped it
            self.first, self.ending, self.latest = weakref.ref(optimizer), None, None
        elif self.ending is None and optimizer is not first:
            self.latest = weakref.ref(optimizer), self.now(), len(self.losses), len(self.updates), self.backwards
            return False
        elif 0 < self.backwards == self.counted_backwards:
            return False
        elif self.ending is None:
            self.ending = self.latest[0] if self.latest else self.first
            if self.latest:
                self.lengthen_step()
                return False
        elif optimizer is not ending:
            return False
        self.counted_backwards = self.backwards
        return True

    def lengthen_step(self):
        """The step before ended with the last optimizer, not with the first: its record waits for that."""
        _, end, losses, updates, backwards = self.latest
        if self.pending:
            record, begin, _, its_losses, its_updates, outside = self.pending.pop()
            for name, sizes in self.sizes(backwards - self.counted_backwards).items():
                record[name] += sizes
            self.pending.append((record, begin, end, its_losses + self.losses[:losses],
                                 its_updates + self.updates[:updates], outside))
        del self.losses[:losses], self.updates[:updates]
        self.last, self.latest, self.counted_backwards = end, None, backwards
        self.shares.marks = None  # they begin before the step

    def end_step(self, skipped):
        import torch

        cuda = torch.cuda.is_initialized()
        end = self.now()
        self.step += 1
        self.shares.end_step(self.step)
        if self.step == 1:
            self.write_process()
        if self.cap_again is not None and self.step <= self.warmup and cuda:
            self.cap_again()
        last = self.warmup + self.measured
        record = dict(record="step", step=self.step, skipped=skipped, save_ms=self.saves_s * 1e3,
                      phase="warmup" if self.step <= self.warmup else "measured" if self.step <= last
                      else "between" if self.step == last + 1 else "traced")
        record.update(self.memory(cuda))
        record.update(self.sizes())
        record["without_gradients"], outside = self.forwards.end_step()
        self.pending.append((record, self.last, end, self.losses, self.updates, outside))
        self.losses, self.updates, self.saves_s = [], [], 0
        if self.step == 2:
            self.write_gradients()
        if self.timeline is not None:
            self.timeline.end_step(end)
            if self.step == last + 1:
                self.timeline.forget()
        elif self.step == last:
            self.flush(True, hold=False)
            self.measure_more()
            last = self.warmup + self.measured
            if self.step == last and self.traced:
                self.timeline = memtune_timeline.Timeline(self, cuda)
        self.growth.end_step(self.step, last)
        if self.step >= (last + 1 + self.traced if self.timeline is not None else last):
            self.finish()
        self.flush(not cuda)
        self.last = self.now()
        self.forwards.begin_step(self.last)
        self.shares.begin_step(self.last)
        if self.timeline is not None:
            self.timeline.begin_step(self.last)

    def measure_more(self):
        """If steps differ, whole periods are measured. Ranks have to take as many steps as the others."""
        if memtune_process.rank_and_world()[1] == 1:
            self.measured += self.periods.missing()
        if self.step == self.warmup + self.measured:
            period = self.periods.of_steps()
            if period:
                self.write(record="period", **period)

    def sizes(self, backwards=None):
        """Of the batches of the first backwards, or of all: those of a loader, or what the model was given."""
        names = ("rows", "tokens", "positions")
        given = self.forwards.take_sizes(backwards)
        told = self.batches.of_step(backwards) if self.batches else dict(batches=0, rows=[], tokens=[], positions=[])
        rows = [size[0] for size in given]
        if not any(told["rows"]):
            told.update(batches=len(given), **{name: [size[i] for size in given] for i, name in enumerate(names)})
        elif not any(told["tokens"]) and told["rows"] == rows:
            told.update({name: [size[i] for size in given] for i, name in enumerate(names)})
        return told

    def memory(self, cuda):
        import torch

        if not cuda:
            peak = memtune_process.resident_peak()
            return {"allocated": peak, "reserved": peak, "held": memtune_process.resident()}
        figures = {}
        try:
            stats = torch.cuda.memory_stats()
            figures = {"allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]}
            held = stats.get("allocated_bytes.all.current", 0)
            figures.update(held=held, retries=stats.get("num_alloc_retries", 0),
                           segments=stats.get("segment.all.current", 0))
            self.oom.end_step(held)
            if self.step == self.warmup + self.steps:
                figures["device"] = self.device_bytes(stats.get("reserved_bytes.all.current", 0))
        except Exception as error:  # a custom allocator without statistics
            if self.step == 1:
                self.note("PyTorch's allocator tells no peaks: %s" % error)
        return figures

    def device_bytes(self, reserved):
        import torch

        try:
            used = self.device_memory.of_process(torch.cuda._get_nvml_device_index(None), reserved)
        except Exception:  # no NVML, or a device without a number in it
            used = None
        if used is None:
            self.note("memory of the device is what every process on it holds: the driver does not tell this one's")
            free, total = torch.cuda.mem_get_info()
            used = total - free
        return used

    def unmanaged_bytes(self, device):
        """Of this process on the device, beside PyTorch's allocator: context, kernels, libraries. If the driver does not
        tell this process's, other processes' memory counts."""
        import torch

        reserved = torch.cuda.memory_reserved(device)
        try:
            used = self.device_memory.of_process(torch.cuda._get_nvml_device_index(device), reserved)
        except Exception:  # no NVML, or a device without a number in it
            used = None
        if used is None:
            free, total = torch.cuda.mem_get_info(device)
            used = total - free
        return max(0, used - reserved)

    def flush(self, wait, hold=True):
        """Writes the steps that the device has finished; with `wait`, all steps. With `hold`, the last one waits until it
        is known which optimizer ends it."""
        import torch

        if wait and self.pending and self.pending[-1][2][1] is not None:
            torch.cuda.synchronize()
        while len(self.pending) > (1 if hold and self.ending is None else 0):
            record, begin, end, losses, updates, outside = self.pending[0]
            if not wait and end[1] is not None and not end[1].query():
                return
            if begin is not None:
                record["ms"] = self.ms_between(begin, end)
            if 0 < len(updates) < 8:
                record["optimizer_ms"] = sum(self.ms_between(*update) for update in updates)
            record.update(self.shares.of_step(record["step"], end) or {})
            outside_ms = sum(self.ms_between(*moments) for moments in outside)
            record["outside_ms"] = max(0, outside_ms - record["save_ms"])
            values = [loss.values() for loss in losses if loss.value is not None]
            record["loss"] = [finite(value) for value, _ in values]
            if any(value != unscaled for value, unscaled in values):
                record["unscaled"] = [finite(unscaled) for _, unscaled in values]
            self.write(**record)
            self.periods.add(record, len(updates))
            self.pending.pop(0)

    def detach(self):
        """Ends the measuring of a process that goes on: removes the hooks of models."""
        self.over = True
        for each in (self.timeline.parts, self.timeline.memory) if self.timeline is not None else ():
            each.stop()
        self.forwards.detach()
        self.oom.detach()

    def finish(self):
        import atexit

        self.over = True
        atexit.register(memtune_process.leave_process_group)
        try:
            self.flush(True, hold=False)
            if self.timeline is not None:
                self.timeline.end(self.traced)
            self.write(record="done")
        finally:  # even if the record cannot be written
            raise SystemExit(0)


def finite(value):
    return value if value - value == 0 else None  # JSON has no other
