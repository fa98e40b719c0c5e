"""Tensors that a block creates or saves, by storage. Export puts this into memtune_plan.py, from the mark on."""
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
    """The plan does not fit this model or this version of torch."""


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
    """The whole storage of a tensor, as bytes."""
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.untyped_storage(), 0, (nbytes(t),), (1,))


class Streams:
    # [copies]
    """Side streams for copies, with reusable pinned host memory. Without CUDA, copies are synchronous."""
    # [still]
    """The device and its random generator. This plan makes no copies."""
    # [end]

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda, self.moved_bytes = device, device.type == "cuda", 0  # offloaded so far
        # [eager]
        self.generator = torch.cuda.default_generators[device.index or 0] if self.cuda else torch.default_generator
        # [copies]
        self.out, self.back = [torch.cuda.Stream(device) if self.cuda else None for _ in range(2)]
        self.free: dict[int, list[Tensor]] = {}  # unused host memory by size

    def take(self, count: int) -> Tensor:
        """Returns the smallest unused host memory that fits. If none fits, frees the largest and allocates, so that
        steps of different lengths share memory."""
        size = min((n for n in list(self.free) if n >= count), default=max(self.free, default=0))
        host = self.free[size].pop() if size else None
        if size and not self.free[size]:
            del self.free[size]
        if host is None or size < count:
            host = None  # freed before the allocation
            host = torch.empty(count, dtype=torch.uint8, pin_memory=self.cuda)
        return host

    def copy(self, stream: Any, target: Tensor, source: Tensor) -> Any:
        """Copies after the work queued on the compute stream. Returns the event at its end."""
        if not self.cuda:
            target.copy_(source)
            return None
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
        return stream.record_event()

    def wait(self, event: Any) -> None:
        """Makes the compute stream wait, not the host."""
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)
        # [end]


class Value:
    """The content of a storage between two writes, and its place until backward needs it."""

    def __init__(self, run: Plan, place: str, t: Tensor) -> None:
        self.run, self.place, self.version, self.count = run, place, t._version, nbytes(t)
        self.kept: Any = None  # a tensor on the device
        # [moves]
        self.memory: Any = None  # a tensor on the host
        self.copied: Any = None  # event at the end of its last copy
        # [eager]
        self.node: Any = None  # the Node that recomputes it
        # [end]
        t.untyped_storage().memtune = self  # type: ignore[attr-defined]

    def hold(self, t: Tensor) -> None:
        self.kept, self.version = t.detach(), t._version

    def use(self, t: Tensor) -> None:
        """Called when backward will need it. From now on its users keep it alive, not its storage."""
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
            target = torch.empty(self.count, dtype=torch.uint8, device=self.streams.device)  # on the compute stream
            self.hold(target)
            self.copied = self.streams.copy(self.streams.back, whole(target), self.memory[:self.count])

    def __del__(self) -> None:
        if self.memory is not None:
            if self.kept is not None:
                self.streams.wait(self.copied)  # both memories may be reused only after the copy
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
        # [states]
        self.run.states.need(self.kept)
        # [end]
        return self.kept

    # [eager]
    def overwrite(self) -> None:
        """Called before a write into the storage. Keeps the old content elsewhere for backward."""
        # [eager moves]
        if self.memory is not None:
            return self.leave()
        # [eager]
        if self.kept is not None:
            self.hold(whole(self.kept).clone())
    # [end]


class View:
    """A tensor as a view of a Value. Autograd and recomputable functions hold it instead of the tensor."""

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
