"""What waits in host memory. Export writes this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from memtune_values import nbytes, whole

if TYPE_CHECKING:
    from memtune_plan import Plan

# --- host memory ------------------------------------------------------------------------------------------------------


class Streams:
    """Copies beside the compute stream, and pinned memory for them, used again; without CUDA they are plain copies."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.out, self.back = [torch.cuda.Stream(device) if self.cuda else None for _ in range(2)]
        self.generator = torch.cuda.default_generators[device.index or 0] if self.cuda else torch.default_generator
        self.free: dict[int, list[torch.Tensor]] = {}  # by their size
        self.moved_bytes = 0  # out, so far

    def take(self, count: int) -> torch.Tensor:
        """Host memory: of that size, else the smallest that is larger; where all that is free is smaller, one goes for
        it. So steps of many lengths hold what the longest needs, not a set for each."""
        size = count if count in self.free else min((n for n in list(self.free) if n > count),
                                                    default=max(self.free, default=0))
        host = self.free[size].pop() if size else None
        if size and not self.free[size]:
            del self.free[size]
        if host is None or size < count:
            del host
            host = torch.empty(count, dtype=torch.uint8, pin_memory=self.cuda)
        return host

    def give_back(self, host: torch.Tensor) -> None:
        self.free.setdefault(len(host), []).append(host)

    def now(self) -> Any:
        return torch.cuda.current_stream(self.device).record_event() if self.cuda else None

    def wait(self, event: Any) -> None:
        """The compute stream waits, not the host."""
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)

    def copy(self, stream: Any, target: torch.Tensor, source: torch.Tensor, *after: Any) -> Any:
        if not self.cuda:
            target.copy_(source)
            return None
        with torch.cuda.stream(stream):
            for event in filter(None, after):
                stream.wait_event(event)
            target.copy_(source, non_blocking=True)
        return stream.record_event()


class Moved:
    """A storage that waits in host memory. What its copies use is its own until they are done."""

    def __init__(self, run: Plan, t: torch.Tensor) -> None:
        self.streams, self.count = run.streams, nbytes(t)
        self.here: torch.Tensor | None = whole(t)  # until it has left the device, and when it is back
        self.memory = self.streams.take(self.count)
        self.host = self.memory[:self.count]
        self.last = self.streams.copy(self.streams.out, self.host, self.here, self.streams.now())
        self.streams.moved_bytes += self.count
        run.group.moved.append(weakref.ref(self))
        run.stash.append(weakref.ref(self))
        run.release(run.plan["stash_bytes"])

    def leave(self) -> None:
        self.streams.wait(self.last)
        self.here = None

    def restore(self) -> None:
        if self.here is None:
            self.here = torch.empty(self.count, dtype=torch.uint8, device=self.streams.device)  # of the compute stream
            self.last = self.streams.copy(self.streams.back, self.here, self.host, self.streams.now(), self.last)

    def get(self) -> torch.Tensor:
        self.restore()
        self.streams.wait(self.last)
        return self.here  # type: ignore[return-value]

    def __del__(self) -> None:
        if hasattr(self, "last"):
            if self.here is not None:
                self.streams.wait(self.last)  # who gets the memory next, here or on the host, comes behind the copy
            self.streams.give_back(self.memory)


class Group:
    """One run of a block: what has to be back before its backward."""

    def __init__(self, before: Group | None) -> None:
        self.before, self.opened = before, False
        self.moved: list[weakref.ref[Moved]] = []

    def open(self, ahead: int) -> None:
        group, self.opened = None if self.opened else self, True
        while group is not None and ahead >= 0:
            for ref in group.moved:
                if (moved := ref()) is not None:
                    moved.restore()
            group, ahead = group.before, ahead - 1
