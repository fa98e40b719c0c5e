"""What a block makes and autograd saves, by storage. Export writes this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from memtune_moved import Moved
    from memtune_plan import Plan

# --- values -----------------------------------------------------------------------------------------------------------

# What Python calls the functions that a plan names.
ALIASES = dict(pair.split(":") for pair in (
    "float:to half:to bfloat16:to double:to type:to type_as:to rdiv:div truediv:div rtruediv:div true_divide:div "
    "radd:add rmul:mul multiply:mul rpow:pow subtract:sub getitem:index concat:cat concatenate:cat contiguous:clone "
    "iadd:add_ isub:sub_ imul:mul_ idiv:div_ itruediv:div_ ipow:pow_ setitem:copy_").split())
# Functions of these modules may run again, but for those that move averages or whose memory is filled unseen.
AGAIN = (None, "torch", "torch._C._nn", "torch._tensor", "torch.functional", "torch.nn.functional", "torch._ops.aten")
ONCE = ("batch_norm", "instance_norm", "empty", "new_", "zeros", "ones", "full")
CHANGED = "a tensor that backward needs has been changed in place since it was saved"


class PlanError(RuntimeError):
    """The model, or this torch, is not what the plan was made for."""


def tensors_in(a: Any) -> list[torch.Tensor]:
    if isinstance(a, torch.Tensor):
        return [a]
    a = a.values() if isinstance(a, dict) else a if isinstance(a, (list, tuple)) else ()
    return [t for v in a for t in tensors_in(v)]


def replaced(a: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """With what is of that kind in it changed."""
    if isinstance(a, dict):
        return {k: replaced(v, kind, change) for k, v in a.items()}
    if type(a) in (list, tuple):
        return type(a)(replaced(v, kind, change) for v in a)
    return change(a) if isinstance(a, kind) else a


def is_plain(t: torch.Tensor) -> bool:
    return type(t) in (torch.Tensor, nn.Parameter) and t.layout == torch.strided and not (t.is_conj() or t.is_neg())


def nbytes(t: torch.Tensor) -> int:
    return t.untyped_storage().nbytes()


def storage_of(t: torch.Tensor) -> int:
    return t.untyped_storage()._cdata


def whole(t: torch.Tensor) -> torch.Tensor:
    """The storage that it is in, as bytes."""
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.untyped_storage(), 0, (nbytes(t),), (1,))


class Value:
    """What a storage holds from one write to the next. place: None until the function that made it has returned."""

    def __init__(self, run: Plan, place: str | None, t: torch.Tensor) -> None:
        self.run, self.place, self.version = run, place, t._version
        self.kept: torch.Tensor | None = None  # a view of it: it is needed, or has been made again
        self.moved: Moved | None = None
        self.node: Node | None = None
        t.untyped_storage().memtune = self  # type: ignore[attr-defined]

    def hold(self, t: torch.Tensor) -> None:
        self.kept, self.version = t.detach(), t._version

    def use(self, t: torch.Tensor) -> None:
        """Backward will need it: it lives as long as its users now, not as long as the storage."""
        if self.place == "recompute":
            return
        if self.place == "host":
            self.moved = self.moved or Moved(self.run, t)
        elif self.kept is None:
            self.hold(t)
        t.untyped_storage().memtune = weakref.ref(self)  # type: ignore[attr-defined]

    def settle(self, place: str, node: Node | None = None) -> None:
        needed, self.kept, self.place, self.node = self.kept, None, place, node
        if needed is not None:
            self.use(needed)

    def overwrite(self) -> None:
        """Somebody is about to write into the storage: who needs what is in it finds that elsewhere."""
        if self.moved is not None:
            self.moved.leave()
        elif self.kept is not None:
            self.hold(whole(self.kept).clone())

    def is_there(self) -> bool:
        return self.kept is not None or self.moved is not None or self.node is not None

    def get(self) -> torch.Tensor:
        if self.moved is not None:
            return self.moved.get()
        if self.kept is None:
            self.node.rerun()  # type: ignore[union-attr]
        if self.kept._version != self.version:  # type: ignore[union-attr]
            raise RuntimeError(CHANGED)
        return self.kept  # type: ignore[return-value]


class View:
    """A tensor as a part of a value: what autograd holds in its place, and a function that may run again."""

    def __init__(self, value: Value, t: torch.Tensor) -> None:
        self.value, self.group, self.count = value, value.run.group, nbytes(t)
        self.dtype, self.part, self.grad = t.dtype, (t.storage_offset(), t.size(), t.stride()), t.requires_grad

    def tensor(self, of: torch.Tensor) -> torch.Tensor:
        if nbytes(of) != self.count:
            raise PlanError("memory that the plan makes values again from has been freed: these have to stay")
        return torch.empty(0, dtype=self.dtype, device=of.device).set_(of.untyped_storage(), *self.part)


class Node:
    """A function of the forward that can run again: the same arguments, modes and random numbers, nothing else."""

    def __init__(self, run: Plan, func: Any, args: Any, olds: dict[int, Value], state: torch.Tensor | None) -> None:
        self.run, self.func, self.olds, self.state = run, func, olds, state
        # One of each, for functions that ask whether q is k.
        views = {id(t): View(olds.get(storage_of(t)) or run.needed(t), t) for t in tensors_in(args)}
        self.args, self.views = replaced(args, torch.Tensor, lambda t: views[id(t)]), list(views.values())
        self.grad, kind = torch.is_grad_enabled() and not olds, run.streams.device.type
        self.cast = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
        self.makes: list[tuple[tuple[str, int], weakref.ref[Value]]] = []  # by what it is: see rerun

    def rerun(self) -> None:
        copies = {number: whole(old.get()).clone() for number, old in self.olds.items()}
        own = {id(old): copies[number] for number, old in self.olds.items()}
        tensors = {id(v): v.tensor(own[id(v.value)] if id(v.value) in own else v.value.get()).requires_grad_(
            v.grad and self.grad) for v in self.views}
        args, kwargs = replaced(self.args, View, lambda v: tensors[id(v)])
        saved: list[torch.Tensor] = []
        generator, kind = self.run.streams.generator, self.run.streams.device.type
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            if self.cast or torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, dtype=self.cast or None, enabled=bool(self.cast)))
            if any(what == "saved" for (what, _), _ in self.makes):
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(
                    lambda t: saved.append(t.detach()), lambda _: None))
            if self.state is not None:
                stack.callback(generator.set_state, generator.get_state())
                generator.set_state(self.state)
            results = tensors_in(self.func(*args, **kwargs))
        made = {"result": results, "saved": saved, "written": copies}
        for (what, number), ref in self.makes:
            if (value := ref()) is not None:
                value.hold(made[what][number])
        self.args, self.views, self.olds = None, [], {}


class Functions(TorchFunctionMode):
    """Each function of torch that a block runs, named as a person writes it: what it makes gets its place."""

    def __init__(self, run: Plan) -> None:
        self.run, self.region, self.seen = run, [""], Counter[str]()
        self.inputs: set[int] | None = None  # storages that the function which runs reads; None: none runs
        self.saved: list[tuple[torch.Tensor, Value | None]] = []  # by autograd, for it; None: was there before

    def pack(self, t: torch.Tensor) -> None:
        """Autograd saves it, for the function that runs."""
        made = is_plain(t) and self.run.find(t) is None and storage_of(t) not in self.inputs  # type: ignore[operator]
        self.saved.append((t, Value(self.run, None, t) if made else None))

    def name(self, func: Any, kwargs: Any) -> str:
        """"mul_" of Tensor.__imul__: what writes into its first argument ends so."""
        name = getattr(func, "__name__", "").split(".")[0]
        plain = ALIASES.get(name.strip("_"), name.strip("_"))
        in_place = kwargs.get("inplace") or name.endswith("_") and not name.endswith("__")
        return plain + "_" if in_place else plain

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        run, kwargs = self.run, kwargs or {}
        if getattr(func, "__name__", "") == "__get__" or not all(map(is_plain, inputs := tensors_in([args, kwargs]))):
            return func(*args, **kwargs)  # an attribute; others' memory is theirs
        name = self.name(func, kwargs)
        (ops, others), where = run.treatments[run.index], f"{self.region[-1]}/{name}"
        key = f"{where}#{self.seen[where]}"
        places = ops.get(key, others)
        again = "recompute" in places and bool(inputs) and getattr(func, "__module__", None) in AGAIN and \
            not name.startswith(ONCE) and not any(isinstance(a, torch.Generator) for a in [*args, *kwargs.values()])
        state = run.streams.generator.get_state() if again else None
        written = {storage_of(t): t for t in tensors_in(args[:1] if name.endswith("_") else kwargs.get("out"))}
        olds = {number: old for number, t in written.items() if (old := run.find(t)) is not None}
        for old in olds.values():
            old.overwrite()
        self.inputs, self.saved = {storage_of(t) for t in inputs} - written.keys(), []
        try:
            result = func(*args, **kwargs)
        finally:
            known, saved, self.inputs, self.saved = self.inputs, self.saved, None, []

        made: dict[int, tuple[tuple[str, int], torch.Tensor, Value]] = {}
        for what, t in [*((("result", i), t) for i, t in enumerate(tensors_in(result))),
                        *((("written", number), t) for number, t in written.items())]:
            if is_plain(t) and storage_of(t) not in known and (v := run.find(t) or Value(run, None, t)).place is None:
                made.setdefault(id(v), (what, t, v))
        for i, (t, value) in enumerate(saved):
            if value is not None:
                made.setdefault(id(value), (("saved", i), t, value))
        if not made:
            return result
        self.seen[where] += 1
        run.missing.discard(key)
        if state is not None and torch.equal(state, run.streams.generator.get_state()):
            state = None  # it drew nothing
        again = again and len(olds) == len(written) and all(old.is_there() for old in olds.values())
        node = None
        for what, t, value in made.values():
            if what[0] == "saved" and name == "linear" and self.is_cast(t, value, inputs, places[0]):
                continue
            own = what[0] == "saved"
            place, count = places[own], nbytes(t) if t.device == run.streams.device else 0
            if place == "recompute" and (not again or own and (olds or count < run.plan["saved_min_bytes"])) or \
                    place == "host" and count < max(run.plan["min_bytes"], 1):
                place = "keep"
            if place == "recompute":
                node = node or Node(run, func, [list(args), kwargs], olds, state)
                node.makes.append((what, weakref.ref(value)))
            value.settle(place, node if place == "recompute" else None)
        return result

    def is_cast(self, t: torch.Tensor, value: Value, inputs: list[torch.Tensor], place: str) -> bool:
        """Autocast's copy of an input goes with the input, a weight's with the result, and is cast again."""
        kind = self.run.streams.device.type
        of = [a for a in inputs if a.dtype != t.dtype and a.numel() * t.itemsize == nbytes(t) and a.is_contiguous()]
        if not torch.is_autocast_enabled(kind) or t.dtype != torch.get_autocast_dtype(kind) or len(of) != 1:
            return False
        source = self.run.find(of[0])
        if (source.place if source else place) == "keep":
            return False
        node = Node(self.run, torch.Tensor.to, [of, {"dtype": t.dtype}], {}, None)
        node.makes.append((("result", 0), weakref.ref(value)))
        value.settle("recompute", node)
        return True
