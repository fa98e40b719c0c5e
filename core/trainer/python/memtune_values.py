"""Values of a forward by the storage that they are in. Part of the file that export writes, from the mark on."""
from __future__ import annotations

import weakref
from typing import Any, Callable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

# --- values -----------------------------------------------------------------------------------------------------------


class PlanError(RuntimeError):
    """The model, or this torch, is not what the plan was made for."""


class Streams:
    """Copies beside the compute stream, and pinned memory for them, used again; without CUDA they are plain copies."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.out, self.back = [torch.cuda.Stream(device) if self.cuda else None for _ in range(2)]  # for copies
        self.free: dict[int, list[torch.Tensor]] = {}
        self.host_bytes = self.moved_bytes = 0  # taken from the host; copied out so far

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

    def take(self, count: int) -> torch.Tensor:
        self.moved_bytes += count
        if self.free.get(count):
            return self.free[count].pop()
        self.host_bytes += count
        return torch.empty(count, dtype=torch.uint8, pin_memory=self.cuda)

    def generator(self, state: torch.Tensor | None = None) -> torch.Tensor:
        """State of the random numbers, before it is set to `state`."""
        generator = torch.cuda.default_generators[self.device.index or 0] if self.cuda else torch.default_generator
        now = generator.get_state()
        if state is not None:
            generator.set_state(state)
        return now


class Moved:
    """A storage that waits in host memory. What its copies use is its own until they are done."""

    def __init__(self, run: Values, storage: torch.UntypedStorage) -> None:
        self.streams, self.count, self.device = run.streams, storage.nbytes(), storage.device
        self.source: torch.UntypedStorage | None = storage
        self.target: torch.UntypedStorage | None = None
        self.host = self.streams.take(self.count)
        self.last = self.streams.copy(self.streams.out, self.host, self.bytes(storage), self.streams.now())
        run.group.moved.append(weakref.ref(self))
        run.stash.append(weakref.ref(self))
        run.release(run.plan["stash_bytes"])

    def bytes(self, storage: torch.UntypedStorage) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8, device=self.device).set_(storage, 0, (self.count,), (1,))

    def restore(self) -> None:
        if self.source is None and self.target is None:
            target = torch.empty(self.count, dtype=torch.uint8, device=self.device)  # of the compute stream
            self.target = target.untyped_storage()
            self.last = self.streams.copy(self.streams.back, target, self.host, self.streams.now(), self.last)

    def storage(self) -> torch.UntypedStorage:
        self.restore()
        self.streams.wait(self.last)
        return self.target if self.source is None else self.source  # type: ignore[return-value]

    def drop_source(self) -> None:
        self.streams.wait(self.last)
        self.source = None

    def __del__(self) -> None:
        if hasattr(self, "last"):
            if self.source is not None or self.target is not None:
                self.streams.wait(self.last)  # who gets the memory next, here or on the host, comes behind them
            self.streams.free.setdefault(self.count, []).append(self.host)


class Group:
    """One run of a block: what has to be back before its backward."""

    def __init__(self, before: Group | None) -> None:
        self.before, self.opened = before, False
        self.moved: list[weakref.ref[Moved]] = []

    def restore(self, ahead: int) -> None:
        for moved in filter(None, [ref() for ref in self.moved]):
            moved.restore()
        if self.before is not None and ahead > 0:
            self.before.restore(ahead - 1)


class Value:
    """What a storage holds from one write to the next. place: None until the function that made it has returned."""

    def __init__(self, run: Values, place: str | None, node: Node | None = None, bare: bool = False) -> None:
        self.run, self.place, self.node, self.bare = run, place, node, bare
        self.held: torch.UntypedStorage | None = None  # kept, or made again
        self.moved: Moved | None = None
        self.saved: list[Saved] = []  # while there is no place

    def use(self, storage: torch.UntypedStorage) -> None:
        """Backward will need it."""
        if self.place == "host":
            self.moved = self.moved or Moved(self.run, storage)
        elif self.place != "recompute":
            self.held = storage
        if self.place != "recompute":
            self.run.disown(storage)

    def settle(self, place: str) -> None:
        held, self.held, self.place = self.held, None, place
        self.node = self.node if place == "recompute" else None
        if held is not None:
            self.use(held)
        for saved in self.saved:
            saved.tensor = saved.tensor if place == "keep" else None
        self.saved = []

    def storage(self) -> torch.UntypedStorage:
        if self.moved is None and self.held is None:
            self.node.rerun()  # type: ignore[union-attr]
        return self.held if self.moved is None else self.moved.storage()  # type: ignore[return-value]


class View:
    """A tensor as a part of a value's storage."""

    def __init__(self, value: Value, t: torch.Tensor) -> None:
        self.value, self.dtype, self.device = value, t.dtype, t.device
        self.offset, self.size, self.stride, self.count = t.storage_offset(), t.size(), t.stride(), nbytes(t)

    def tensor(self, storage: torch.UntypedStorage) -> torch.Tensor:
        if storage.nbytes() != self.count:
            raise PlanError("memory that the plan makes values again from has been freed: these have to stay")
        return torch.empty(0, dtype=self.dtype, device=self.device).set_(storage, self.offset, self.size, self.stride)


class Saved:
    """What autograd holds in place of a tensor: the tensor, or the way to it."""

    def __init__(self, group: Group, tensor: torch.Tensor, view: View | None = None) -> None:
        self.group, self.view, self.version = group, view, tensor._version
        self.tensor: torch.Tensor | None = tensor


class Node:
    """An op of the forward that can be run again: the same arguments, the same random numbers, nothing else."""

    def __init__(self, run: Values, func: Any, args: Any, random: torch.Tensor | None) -> None:
        self.run, self.func, self.args, self.random = run, func, args, random
        self.outputs: list[tuple[int, weakref.ref[Value]]] = []         # by number in the result
        self.written: list[tuple[Value, weakref.ref[Value], int]] = []  # before, after, bytes

    def rerun(self) -> None:
        copies = {id(old): torch.UntypedStorage(count, device=self.run.streams.device) if old.bare
                  else old.storage().clone() for old, _, count in self.written}
        args, kwargs = replaced(self.args, View, lambda v: v.tensor(
            copies[id(v.value)] if id(v.value) in copies else v.value.storage()))
        with torch.autocast(self.run.streams.device.type, enabled=False):
            before = None if self.random is None else self.run.streams.generator(self.random)
            made = tensors_in(self.func(*args, **kwargs))
            if before is not None:
                self.run.streams.generator(before)
        held = [(output, made[i].untyped_storage()) for i, output in self.outputs]
        for output, storage in held + [(output, copies[id(old)]) for old, output, _ in self.written]:
            if (value := output()) is not None:
                value.held = storage
        self.args, self.written = None, []


def tensors_in(a: Any) -> list[torch.Tensor]:
    if isinstance(a, torch.Tensor):
        return [a]
    a = list(a.values()) if isinstance(a, dict) else a
    return [t for v in a for t in tensors_in(v)] if isinstance(a, (list, tuple)) else []


def replaced(a: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """With what is of that kind in it changed. A closure that calls itself would keep memory, as a cycle."""
    if isinstance(a, kind):
        return change(a)
    if isinstance(a, dict):
        return {k: replaced(v, kind, change) for k, v in a.items()}
    return type(a)(replaced(v, kind, change) for v in a) if type(a) in (list, tuple) else a


def nbytes(t: torch.Tensor) -> int:
    return t.untyped_storage().nbytes()


def is_plain(t: torch.Tensor) -> bool:
    return type(t) in (torch.Tensor, torch.nn.Parameter) and t.layout == torch.strided and \
        not (t.is_conj() or t.is_neg())


class Values:
    """Values by the storage that they are in, and what autograd saves of them."""

    def __init__(self, plan: dict[str, Any], device: torch.device) -> None:
        self.plan, self.streams, self.group, self.busy = plan, Streams(device), Group(None), False
        self.table: dict[int, tuple[StorageWeakRef, Value | None, weakref.ref[Value]]] = {}
        self.stash: list[weakref.ref[Moved]] = []  # moved, and still on the device

    def release(self, limit: int) -> None:
        """Drops sources that are copied; beyond `limit` bytes the compute stream waits for the oldest."""
        held = [m for ref in self.stash if (m := ref()) is not None and m.source is not None]
        count = sum(m.count for m in held)
        for moved in held:
            if count > limit or moved.last is None or moved.last.query():
                moved.drop_source()
                count -= moved.count
        self.stash = [weakref.ref(m) for m in held if m.source is not None]

    def find(self, t: torch.Tensor) -> Value | None:
        entry = self.table.get(t.untyped_storage()._cdata)
        return None if entry is None or entry[0].expired() else entry[1] or entry[2]()

    def add(self, t: torch.Tensor, value: Value) -> Value:
        storage = t.untyped_storage()
        self.table[storage._cdata] = StorageWeakRef(storage), value, weakref.ref(value)
        return value

    def disown(self, storage: torch.UntypedStorage) -> None:
        """From now on the value is its users', and lives as long as they."""
        if (entry := self.table.get(storage._cdata)) is not None:
            self.table[storage._cdata] = entry[0], None, entry[2]

    def purge(self) -> None:
        self.table = {key: entry for key, entry in self.table.items() if not entry[0].expired()}

    def overwrite(self, t: torch.Tensor) -> Value | None:
        """What is in the tensor's storage now, for those who need it after the write that comes."""
        if (value := self.find(t)) is None:
            return None
        if value.place is None and value.node is not None:
            value.settle("recompute")
        elif value.moved is not None:
            value.moved.drop_source()
        elif value.held is not None:
            value.held = value.held.clone()
        return value

    def needed(self, t: torch.Tensor) -> Value:
        value = self.find(t) or self.add(t, Value(self, "keep"))
        value.use(t.untyped_storage())
        return value

    def pack(self, t: torch.Tensor) -> Saved:
        was, self.busy = self.busy, True
        try:
            t = t if t.grad_fn is None else t.detach()  # a function's result would hold itself through its node
            value = self.find(t) if is_plain(t) else None
            if value is None:
                return Saved(self.group, t)
            value.use(t.untyped_storage())
            saved = Saved(self.group, t, View(value, t))
            if value.place is None:
                value.saved.append(saved)
            elif value.place != "keep":
                saved.tensor = None
            return saved
        finally:
            self.busy = was

    def unpack(self, saved: Saved) -> torch.Tensor:
        was, self.busy = self.busy, True
        try:
            with torch.no_grad():
                if not saved.group.opened:
                    saved.group.opened = True
                    self.purge()
                    saved.group.restore(self.plan["prefetch_blocks"])
                if saved.tensor is None and saved.view is not None:
                    return saved.view.tensor(saved.view.value.storage())
                assert saved.tensor is not None
                if saved.tensor._version != saved.version:
                    raise RuntimeError("a tensor that backward needs has been changed in place since it was saved")
                return saved.tensor
        finally:
            self.busy = was
