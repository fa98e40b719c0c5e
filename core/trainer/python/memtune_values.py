"""What a block makes and autograd saves, by storage. Export writes this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from memtune_plan import Plan

# --- values -----------------------------------------------------------------------------------------------------------

CHANGED = "a tensor that backward needs has been changed in place since it was saved"


class PlanError(RuntimeError):
    """The model, or this torch, is not what the plan was made for."""


def tensors_in(a: Any) -> list[Tensor]:
    if isinstance(a, Tensor):
        return [a]
    a = a.values() if isinstance(a, dict) else a if isinstance(a, (list, tuple)) else ()
    return [t for v in a for t in tensors_in(v)]


def is_plain(t: Tensor) -> bool:
    return type(t) in (Tensor, nn.Parameter) and t.layout == torch.strided and not (t.is_conj() or t.is_neg())


def nbytes(t: Tensor) -> int:
    return t.untyped_storage().nbytes()


def storage_of(t: Tensor) -> int:
    return t.untyped_storage()._cdata


def whole(t: Tensor) -> Tensor:
    """The storage that it is in, as bytes."""
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.untyped_storage(), 0, (nbytes(t),), (1,))


class Streams:
    # [moves]
    """Copies beside the compute stream, and pinned memory for them, used again; without CUDA they are plain copies."""
    # [stays]
    """Of a device, with no copies beside the computation."""
    # [end]

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda, self.moved_bytes = device, device.type == "cuda", 0  # out, so far
        # [eager]
        self.generator = torch.cuda.default_generators[device.index or 0] if self.cuda else torch.default_generator
        # [moves]
        self.out, self.back = [torch.cuda.Stream(device) if self.cuda else None for _ in range(2)]
        self.free: dict[int, list[Tensor]] = {}  # by their size

    def take(self, count: int) -> Tensor:
        """Host memory of that size, or the smallest larger; else the largest goes for it: steps of many lengths hold
        what the longest needs, not a set for each."""
        size = min((n for n in list(self.free) if n >= count), default=max(self.free, default=0))
        host = self.free[size].pop() if size else None
        if size and not self.free[size]:
            del self.free[size]
        if host is None or size < count:
            host = None  # before there is more
            host = torch.empty(count, dtype=torch.uint8, pin_memory=self.cuda)
        return host

    def copy(self, stream: Any, target: Tensor, source: Tensor) -> Any:
        """Behind what the compute stream has got so far; the event of its end."""
        if not self.cuda:
            target.copy_(source)
            return None
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
        return stream.record_event()

    def wait(self, event: Any) -> None:
        """The compute stream waits, not the host."""
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)
        # [end]


class Value:
    """What a storage holds from one write to the next, and where that is once backward needs it."""

    def __init__(self, run: Plan, place: str, t: Tensor) -> None:
        self.run, self.place, self.version, self.count = run, place, t._version, nbytes(t)
        self.kept: Any = None  # a tensor on the device
        # [moves]
        self.memory: Any = None  # a tensor on the host
        self.copied: Any = None  # the end of its last copy
        # [eager]
        self.node: Any = None  # the Node that makes it again
        # [end]
        t.untyped_storage().memtune = self  # type: ignore[attr-defined]

    def hold(self, t: Tensor) -> None:
        self.kept, self.version = t.detach(), t._version

    def use(self, t: Tensor) -> None:
        """Backward will need it: it lives as long as its users now, not as long as the storage."""
        if self.place == "recompute":
            return
        if not self.is_there():
            self.hold(t)
            # [moves]
            if self.place == "host":
                self.send()
            # [end]
        t.untyped_storage().memtune = weakref.ref(self)  # type: ignore[attr-defined]

    def is_there(self) -> bool:
        # [moves]
        return self.kept is not None or self.memory is not None
        # [stays]
        return self.kept is not None
        # [end]

    # [moves]
    def send(self) -> None:
        run, self.streams = self.run, self.run.streams
        self.memory = self.streams.take(self.count)
        self.copied = self.streams.copy(self.streams.out, self.memory[:self.count], whole(self.kept))
        self.streams.moved_bytes += self.count
        run.groups[-1].append(weakref.ref(self))
        run.stash.append(weakref.ref(self))
        run.release(run.plan["stash_bytes"])

    def leave(self) -> None:
        self.streams.wait(self.copied)
        self.kept = None

    def restore(self) -> None:
        if self.kept is None:
            target = torch.empty(self.count, dtype=torch.uint8, device=self.streams.device)  # of the compute stream
            self.hold(target)
            self.copied = self.streams.copy(self.streams.back, whole(target), self.memory[:self.count])

    def __del__(self) -> None:
        if self.memory is not None:
            if self.kept is not None:
                self.streams.wait(self.copied)  # who gets the memory next, here or on the host, comes behind the copy
            self.streams.free.setdefault(len(self.memory), []).append(self.memory)

    # [end]
    def get(self) -> Tensor:
        # [moves]
        if self.memory is not None:
            self.restore()
            self.streams.wait(self.copied)
        # [eager]
        if self.kept is None:
            self.node.rerun()
        # [end]
        if self.kept._version != self.version:
            raise RuntimeError(CHANGED)
        return self.kept

    # [eager]
    def overwrite(self) -> None:
        """Somebody is about to write into the storage: who needs what is in it finds that elsewhere."""
        # [eager moves]
        if self.memory is not None:
            return self.leave()
        # [eager]
        if self.kept is not None:
            self.hold(whole(self.kept).clone())
    # [end]


class View:
    """A tensor as a part of a value: what autograd holds in its place, and a function that may run again."""

    def __init__(self, run: Plan, t: Tensor, value: Any = None) -> None:
        self.value, self.count, self.grad = value, nbytes(t), t.requires_grad
        self.dtype, self.version, self.part = t.dtype, t._version, (t.storage_offset(), t.size(), t.stride())
        # [moves]
        self.groups = run.groups
        # [end]

    def tensor(self, of: Tensor) -> Tensor:
        if nbytes(of) != self.count:
            raise PlanError("memory that the plan makes values again from has been freed: these have to stay")
        return torch.empty(0, dtype=self.dtype, device=of.device).set_(of.untyped_storage(), *self.part)
