"""What runs in a block: functions of torch as the plan names them, and their ops as they can be run again.

Part of the file that export writes, from the mark on.
"""
from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from memtune_values import Node, Value, Values, View, is_plain, nbytes, replaced, tensors_in

# --- ops --------------------------------------------------------------------------------------------------------------

ALIASES = dict(pair.split(":") for pair in (
    "float:to half:to bfloat16:to double:to type:to type_as:to rdiv:div truediv:div rtruediv:div true_divide:div "
    "radd:add rmul:mul multiply:mul rpow:pow subtract:sub getitem:index concat:cat concatenate:cat "
    "contiguous:clone").split())
BARE = ("empty", "new_", "zeros", "ones", "full")  # what these make gets its content from elsewhere
OVERWRITES = ("bernoulli_", "uniform_", "normal_", "exponential_", "random_", "copy_", "fill_", "zero_")


class Call:
    """A function of torch while it runs: what it makes, and where the plan wants that."""

    def __init__(self, name: str) -> None:
        plain = name.strip("_")
        self.name = plain + "_" if name.endswith("_") and name[-2:] != "__" else ALIASES.get(plain, plain)
        self.places: list[str] | None = None
        self.values: list[tuple[Value, int, int]] = []  # value, storage, bytes


class Functions(TorchFunctionMode):
    def __init__(self, run: Recorder) -> None:
        self.run = run

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        run = self.run
        if run.busy or run.call is not None:
            return func(*args, **(kwargs or {}))
        run.call = call = Call(getattr(func, "__name__", ""))
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            run.call = None
        run.settle(call, result)
        return result


class Ops(TorchDispatchMode):
    def __init__(self, run: Recorder) -> None:
        super().__init__()
        self.run = run

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if self.run.busy:
            return func(*args, **(kwargs or {}))
        self.run.busy = True
        try:
            return self.run.record(func, args, kwargs or {})
        finally:
            self.run.busy = False


class Traits:
    """What an op does beside making its result."""

    def __init__(self, func: Any) -> None:
        name = func._schema.name.split("::")[-1]
        self.writes = [(i, a.name) for i, a in enumerate(func._schema.arguments)
                       if a.alias_info and a.alias_info.is_write]
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.bare, self.overwrites = name.startswith(BARE), name in OVERWRITES
        returns = func._schema.returns
        self.view = bool(returns) and returns[0].alias_info is not None and not self.writes
        # Others' kernels and collectives are never run twice, nor is what moves averages.
        self.again = func.namespace == "aten" and "batch_norm" not in name and not self.bare


class Recorder(Values):
    """Values as functions make them, with the places that the plan has for them."""

    def __init__(self, plan: dict[str, Any], device: torch.device) -> None:
        super().__init__(plan, device)
        self.traits: dict[Any, Traits] = {}
        self.call: Call | None = None
        self.region, self.seen, self.index = [""], Counter[str](), 0  # in the block that runs
        self.treatments = {i: ({op: places.split() for places, ops in t["ops"].items() for op in ops.split()},
                               t["others"].split()) for t in plan["treatments"] for i in t["blocks"]}
        # In-place forms may stand in branches that are never taken.
        self.missing = {op for ops, _ in self.treatments.values() for op in ops if "_#" not in op}

    def places(self, call: Call, count: bool) -> list[str]:
        if call.places is not None:
            return call.places
        (ops, others), name = self.treatments[self.index], f"{self.region[-1]}/{call.name}"
        key = f"{name}#{self.seen[name]}"
        places = ops.get(key, others)
        if count:
            self.seen[name] += 1
            self.missing.discard(key)
            call.places = places
        return places

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs an op, and notes how to run it again where the plan may want that."""
        traits = self.traits.get(func) or self.traits.setdefault(func, Traits(func))
        inputs = tensors_in([args, kwargs])
        if traits.view:
            return func(*args, **kwargs)
        plain = all(map(is_plain, inputs))  # others' memory is theirs
        call = self.call or Call(func._schema.name.split("::")[-1])
        known = {t.untyped_storage()._cdata for t in inputs if plain}
        written = [t for t in tensors_in([args[i] if i < len(args) else kwargs.get(n) for i, n in traits.writes])
                   if is_plain(t)]
        again = plain and traits.again and "recompute" in self.places(call, False) and \
            kwargs.get("generator") is None  # whose state is its owner's
        random = self.streams.generator() if again and traits.random else None
        olds = {t.untyped_storage()._cdata: self.overwrite(t) for t in written}
        again = again and all(o is not None and (o.node or o.bare and traits.overwrites) for o in olds.values())
        result = func(*args, **kwargs)

        made = [(i, t) for i, t in enumerate(tensors_in(result))
                if plain and is_plain(t) and t.untyped_storage()._cdata not in known and self.find(t) is None]
        if not made and not olds:
            return result
        self.places(call, True)
        node = Node(self, func, replaced([list(args), kwargs], torch.Tensor, lambda a: View(
            olds.get(a.untyped_storage()._cdata) or self.needed(a), a)), random) if again else None
        for i, t in made:
            value = self.make(call, t, node, traits.bare)
            if node:
                node.outputs.append((i, weakref.ref(value)))
        for t in written:
            value = self.make(call, t, node, False)
            if node and (old := olds[t.untyped_storage()._cdata]) is not None:
                node.written.append((old, weakref.ref(value), nbytes(t)))
        if self.call is None:
            self.settle(call, result)
        return result

    def make(self, call: Call, t: torch.Tensor, node: Node | None, bare: bool) -> Value:
        storage = t.untyped_storage()
        value = self.add(t, Value(self, None, node, bare))
        call.values.append((value, storage._cdata, storage.nbytes() if t.device == self.streams.device else 0))
        return value

    def settle(self, call: Call, result: Any) -> None:
        """The function has returned: its result, and what it made beside that, get their places."""
        if not call.values:
            return
        was, self.busy = self.busy, True
        results = {t.untyped_storage()._cdata for t in tensors_in(result)}
        for value, storage, count in call.values:
            if value.place is None:
                private = storage not in results
                place = (call.places or ("keep", "keep"))[private]
                small = private and count < self.plan["saved_min_bytes"]
                if place == "recompute" and (value.node is None or small) or \
                        place == "host" and (count == 0 or count < self.plan["min_bytes"]):
                    place = "keep"
                value.settle(place)
        self.busy = was
