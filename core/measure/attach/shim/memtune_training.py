"""Records what a process trains, step by step: one JSON object per line, one file per process that trains."""

import os
import sys

import memtune_process
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
        self.reset()

    def reset(self):
        """Also called in a forked process, because the steps of its parent are not its own."""
        self.pid = os.getpid()
        self.step = 0  # number of steps that have ended
        self.first = None  # the optimizer whose steps separate the training steps
        self.calls = 0  # number of step() calls, of any optimizer
        self.backwards = self.counted_backwards = self.depth = 0
        self.last = None  # moment at which the current step began
        self.losses, self.updates, self.update_began = [], [], None
        self.losses_before_update = None  # how many, while an optimizer steps
        self.saves_s = 0
        self.saving = False
        self.pending = []  # steps that the device has not finished
        self.dtype = None
        self.timeline = None  # set while steps are traced
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
        if not self.over and issubclass(kind, Exception):
            text = str(value).encode("utf-8", "replace").decode()
            if len(text) > 6000:  # the end of a traceback has the reason; an allocator's message may be long
                text = text[:1500] + "\n" + text[-4500:]
            self.write(record="exception", time_s=time.time(), type=kind.__name__, text=text)

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

    def reading(self, tensor):
        """The current value of a scalar. Of a CUDA tensor it is a copy, valid once the stream reaches this point."""
        import torch

        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.numel() != 1 or tensor.is_complex():
            return None
        tensor = tensor.detach().reshape(())
        if tensor.device.type == "cpu":
            return float(tensor)
        if tensor.device.type != "cuda":
            return None
        host = torch.empty((), dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        return host

    # --- called by the hooks

    def begin_backward(self, tensors, grad_tensors):
        self.check_fork()
        self.depth += 1
        if self.depth > 1 or self.over:  # the backward of a checkpointed block
            return
        self.backwards += 1
        if self.batches:
            self.batches.begin_backward()
        if self.timeline is not None:
            self.timeline.begin_backward()
        root = tensors if not isinstance(tensors, (list, tuple)) else tensors[0] if len(tensors) == 1 else None
        if root is None or grad_tensors is not None:
            return
        if self.losses_before_update not in (None, len(self.losses)):  # a closure that its optimizer calls again
            return
        if self.dtype is None:
            self.dtype = memtune_process.least_precise(root)
        loss = getattr(root, "_memtune_loss", None)
        self.losses.append(loss if loss is not None else self.reading(root))

    def end_backward(self):
        self.depth -= 1
        if self.timeline is not None and self.depth == 0:
            self.timeline.end_backward(self.update_began is not None)
        if self.update_began is not None and self.depth == 0:
            self.update_began = self.now()  # a closure: what came before is no update

    def begin_update(self):
        self.check_fork()
        if self.applying is not None:
            self.applying.check()
        if self.timeline is not None:
            self.timeline.begin_update()
        # With an optimizer for each parameter, the clock would take longer than the update.
        self.update_began = self.now() if len(self.updates) < 8 else None
        self.losses_before_update = len(self.losses)

    def end_update(self, optimizer):
        self.calls += 1
        if self.update_began is not None:
            self.updates.append((self.update_began, self.now()))
        self.update_began = self.losses_before_update = None
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

    def ends_step(self, optimizer):
        """True if the optimizer that stepped first steps again, after another backward (it may step group by group)."""
        import weakref

        if self.over:
            raise SystemExit(0)
        first = self.first() if self.first is not None else None
        if first is None:
            self.first = weakref.ref(optimizer)
        elif first is not optimizer or 0 < self.backwards == self.counted_backwards:
            return False
        self.counted_backwards = self.backwards
        return True

    def end_step(self, skipped):
        import torch

        cuda = torch.cuda.is_initialized()
        end = self.now()
        self.step += 1
        if self.step == 1:
            self.write_process()
        if self.cap_again is not None and self.step <= self.warmup and cuda:
            self.cap_again()
        last = self.warmup + self.steps
        record = dict(record="step", step=self.step, skipped=skipped, save_ms=self.saves_s * 1e3,
                      phase="warmup" if self.step <= self.warmup else "measured" if self.step <= last
                      else "between" if self.step == last + 1 else "traced")
        record.update(self.memory(cuda))
        if self.batches:
            record.update(self.batches.of_step())
        self.pending.append((record, self.last, end, self.losses, self.updates))
        self.losses, self.updates, self.saves_s = [], [], 0
        if self.timeline is not None:
            self.timeline.end_step(end)
            if self.step == last + 1:
                self.timeline.forget()
        elif self.step == last and self.traced:
            self.flush(True)
            self.timeline = memtune_timeline.Timeline(self, cuda)
        if self.step >= (last + 1 + self.traced if self.timeline is not None else last):
            self.finish()
        self.flush(not cuda)
        self.last = self.now()
        if self.timeline is not None:
            self.timeline.begin_step(self.last)

    def memory(self, cuda):
        import torch

        if not cuda:
            peak = memtune_process.resident_peak()
            return {"allocated": peak, "reserved": peak}
        figures = {}
        try:
            stats = torch.cuda.memory_stats()
            figures = {"allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]}
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

    def flush(self, wait):
        """Writes the steps that the device has finished; with `wait`, all steps."""
        import torch

        if wait and self.pending and self.pending[-1][2][1] is not None:
            torch.cuda.synchronize()
        while self.pending:
            record, begin, end, losses, updates = self.pending[0]
            if not wait and end[1] is not None and not end[1].query():
                return
            if begin is not None:
                record["ms"] = self.ms_between(begin, end)
            if 0 < len(updates) < 8:
                record["optimizer_ms"] = sum(self.ms_between(*update) for update in updates)
            values = [float(loss) for loss in losses if loss is not None]
            record["loss"] = [value if value - value == 0 else None for value in values]
            self.write(**record)
            self.pending.pop(0)

    def finish(self):
        import atexit

        self.over = True
        atexit.register(memtune_process.leave_process_group)
        try:
            self.flush(True)
            if self.timeline is not None:
                self.timeline.end(self.traced)
            self.write(record="done")
        finally:  # even if the record cannot be written
            raise SystemExit(0)
