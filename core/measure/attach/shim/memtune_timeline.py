"""Records the traced steps of a process as regions: steps, their passes and parts of the model. With CUPTI it traces
kernels and copies too. Moments are those of Training.now().
"""

import os
import time

import memtune_memory
import memtune_parts

EVENTS = 1000  # enough for a few traced steps


told = memtune_parts.harmless("the traced steps have no timeline")


class Timeline:
    """The device must be idle at its begin and its end."""

    def __init__(self, training, cuda):
        self.training, self.cuda = training, cuda
        self.over = False
        self.regions = []  # kind, pass, block, moments of its begin and end
        self.step_began = None
        self.phase = None  # the running one: its pass (None after it) and its begin
        self.parts = memtune_parts.Parts(self)
        self.memory = memtune_memory.StepMemory(training, self, cuda)
        self.left = training.traced  # steps until the last one, whose memory is recorded
        self.start_ns, self.anchor, self.anchor_ns = time.monotonic_ns(), None, 0
        self.events, self.device = [], None  # created ahead, because recording is faster than creating; their device
        self.tracer = self.begin_tracer() if cuda else None
        self.set_clock()

    # --- clocks

    def now_ns(self):
        """Nanoseconds since the start of the trace."""
        if self.tracer is None:
            return time.monotonic_ns() - self.start_ns
        return self.tracer.memtune_trace_ns()

    @told
    def set_clock(self):
        """Pairs a moment with the clock of the trace. On an idle device an event completes at once."""
        import torch

        if self.cuda:  # the first record creates the event
            self.device = torch.cuda.current_device()
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(EVENTS)]
            for event in self.events:
                event.record()
            torch.cuda.synchronize()
        # other programs may run between the clocks of a reading
        width, before, monotonic, self.anchor = min((self.reading() for _ in range(8)), key=lambda reading: reading[0])
        self.anchor_ns, self.start_ns = before + width // 2, monotonic - before
        if self.cuda:
            torch.cuda.synchronize()

    def reading(self):
        """How long it took, the time of the trace and of the system before it, and the moment."""
        before, monotonic, moment = self.now_ns(), time.monotonic_ns(), self.training.now()
        return self.now_ns() - before, before, monotonic, moment

    def moment(self):
        import torch

        if not self.cuda or torch.cuda.is_current_stream_capturing():
            return time.perf_counter(), None
        if not self.events or torch.cuda.current_device() != self.device:
            return self.training.now()
        event = self.events.pop()
        event.record()
        return time.perf_counter(), event

    def ns_of(self, moment):
        return self.anchor_ns + round(self.training.ms_between(self.anchor, moment) * 1e6)

    # --- steps and their passes

    def add(self, kind, running, block, begin, end):
        self.regions.append((kind, running, block, begin, end))

    @told
    def begin_step(self, at):
        self.step_began, self.phase = at, ("backward" if self.training.depth > 0 else "forward", at)

    @told
    def end_step(self, at):
        self.add("step", "forward", -1, self.step_began, at)
        if self.training.depth > 0:  # the optimizer runs in backward
            self.add("phase", "backward", -1, self.phase[1], at)
        else:
            self.parts.go_to(None, at)
        self.phase = None
        if self.left == 0:
            self.memory.end()
        elif self.left == 1:
            self.memory.begin()
        self.left -= 1

    @told
    def forget(self):
        """Drops the step before the traced ones: nothing was issued ahead of it, and ranks begin it apart."""
        self.regions = []

    @told
    def begin_backward(self):
        at = self.moment()
        if self.phase is not None:
            self.add("phase", "forward", -1, self.phase[1], at)
        self.phase = ("backward", at)
        self.parts.begin_backward(at)

    @told
    def end_backward(self, in_update):
        at = self.moment()
        if self.phase is not None and self.phase[0] == "backward":
            self.add("phase", "backward", -1, self.phase[1], at)
        self.phase = ("optimizer" if in_update else None, at)
        self.parts.go_to(None, at)

    @told
    def begin_update(self):
        if self.phase is not None and self.phase[0] == "backward":  # it runs for each parameter, within backward
            return
        at = self.moment()
        self.parts.go_to(None, at)
        last = self.regions[-1] if self.regions else None
        again = last is not None and last[1] == "optimizer" and self.phase is not None and self.phase[0] is None
        self.phase = ("optimizer", self.regions.pop()[3] if again else at)

    @told
    def end_update(self):
        if self.phase is None or self.phase[0] != "optimizer":
            return
        at = self.moment()
        self.add("phase", "optimizer", -1, self.phase[1], at)
        self.phase = (None, at)

    # --- the end

    def end(self, steps):
        """The device must be idle."""
        self.parts.stop()
        rows = self.rows() if not self.over else []
        ran = sorted({row[2] for row in rows if row[2] >= 0})  # a copy of the model may have blocks that never run
        rows = [[kind, running, ran.index(block) if block >= 0 else block, *times] for kind, running, block, *times in rows]
        self.memory.write()
        self.memory.stop()
        self.training.write(record="trace", file=self.end_tracer(), steps=steps, start_ns=self.start_ns,
                            blocks=[self.parts.names[block] for block in ran], regions=rows)

    def rows(self):
        rows, problem = [], None
        for kind, running, block, begin, end in self.regions:
            try:
                times = self.ns_of(begin), self.ns_of(end)
                if 0 <= times[0] < times[1]:
                    rows.append([kind, running, block, *times])
            except Exception as error:  # moments of several devices have no common clock
                problem = error
        if problem is not None:
            self.training.note("the traced steps' timeline is not whole: %s" % problem)
        return rows

    # --- kernels and copies

    def begin_tracer(self):
        import ctypes

        path, error = os.environ.get("MEMTUNE_ATTACH_CUPTI"), ctypes.create_string_buffer(400)
        if not path:
            return None
        try:
            tracer = ctypes.CDLL(path)
            tracer.memtune_trace_ns.restype = ctypes.c_int64
            if tracer.memtune_begin_trace(error, len(error)) == 0:
                return tracer
        except (OSError, AttributeError) as problem:
            error.value = str(problem).encode()[:399]
        self.training.note("kernels and copies cannot be traced: " + error.value.decode(errors="replace"))
        return None

    def end_tracer(self):
        """Returns the name of its file; "": none."""
        import ctypes

        if self.tracer is None:
            return ""
        name, error = "%d.mttrace" % self.training.pid, ctypes.create_string_buffer(400)
        if self.tracer.memtune_end_trace(os.path.join(self.training.folder, name).encode(), error, len(error)) == 0:
            return name
        self.training.note("kernels and copies cannot be traced: " + error.value.decode(errors="replace"))
        return ""
