"""How Plan intercepts the functions of eager blocks. Export puts this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn

import memtune_plan
from memtune_node import AGAIN, ALIASES, ONCE, Node
from memtune_values import Value, is_plain, nbytes, storage_of, tensors_in


class Plan(memtune_plan.Plan):
    # --- functions of the blocks ---

    def name_modules(self, block: nn.Module) -> None:
        """Adds hooks that track the running module by its path in the block."""
        known = set(self.plan["regions"].split())
        for name, module in list(block.named_modules())[1:]:
            while known and name and name not in known:  # adapters, activations: the enclosing module
                name = name.rpartition(".")[0]
            enter = module.register_forward_pre_hook(lambda *_, name=name: self.region.append(name))
            leave = module.register_forward_hook(lambda *_: self.region.__delitem__(-1), always_call=True)
            self.undo += [enter.remove, leave.remove]

    def cast_dtype(self) -> torch.dtype | None:
        """Autocast's dtype, or None if autocast is off."""
        kind = self.streams.device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs a function of a block and gives the tensors that it creates their places."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").split(".")[0]
        inputs, get_state = tensors_in([args, kwargs]), self.streams.generator.get_state
        if name == "__get__" or not all(map(is_plain, inputs)):
            return func(*args, **kwargs)  # an attribute, or a tensor subclass with its own memory
        writes = kwargs.get("inplace") or name.endswith("_") and not name.endswith("__")
        name = ALIASES.get(name.strip("_"), name.strip("_")) + "_" * bool(writes)  # __imul__: mul_
        (ops, others), where = self.places[self.index], f"{self.region[-1]}/{name}"
        key = f"{where}#{self.seen[where]}"
        places = ops.get(key, others)
        again = "recompute" in places and bool(inputs) and getattr(func, "__module__", None) in AGAIN and \
            not name.startswith(ONCE) and not any(isinstance(a, torch.Generator) for a in [*args, *kwargs.values()])
        state = get_state() if again else None
        written = {storage_of(t): t for t in tensors_in(args[:1] if name.endswith("_") else kwargs.get("out"))}
        olds = {number: old for number, t in written.items() if (old := self.find(t)) is not None}
        for old in olds.values():
            old.overwrite()
        known, shapes = {storage_of(t) for t in inputs} - written.keys(), [t.size() for t in written.values()]
        self.saved = []
        try:
            result = func(*args, **kwargs)
        finally:
            saved, self.saved = self.saved, None
        if state is not None and torch.equal(state, get_state()):
            state = None  # it drew no random numbers
        made: dict[int, tuple[str, int, Tensor]] = {}
        found = {"result": tensors_in(result), "written": written.values(), "saved": [t for _, t in saved]}
        for what, tensors in found.items():
            for i, t in enumerate(tensors):
                if is_plain(t) and storage_of(t) not in known and self.find(t) is None:
                    made.setdefault(storage_of(t), (what, i, t))
        self.seen[where] += bool(made)
        self.missing -= {key} if made else set()
        again = again and len(olds) == len(written) and all(v.is_there() or v.node for v in olds.values()) and \
            shapes == [t.size() for t in written.values()]  # squeeze_ would squeeze twice
        node = None
        for what, i, t in made.values():
            own, count = what == "saved", nbytes(t) if t.device == self.streams.device else 0
            if own and name == "linear" and self.cast_again(t, inputs, places[0]):
                continue
            place = places[own]
            if place == "recompute" and (not again or own and (olds or count < self.plan["saved_min_bytes"])) or \
                    place == "host" and count < max(self.plan["min_bytes"], 1):
                place = "keep"
            value = Value(self, place, t)
            if place == "recompute":
                value.node = node = node or Node(self, func, [args, kwargs], olds, state)
                node.makes.append((what, i, weakref.ref(value)))
        for view, t in saved:
            view.value = self.needed(t) if view.version == t._version else None
        return result

    def cast_again(self, t: Tensor, inputs: list[Tensor], place: str) -> bool:
        """Recomputes autocast's copy of an input, or of a weight, unless the input, or else the result, is kept."""
        of = [a for a in inputs if a.dtype != t.dtype and a.numel() * t.itemsize == nbytes(t) and a.is_contiguous()]
        if t.dtype != self.cast_dtype() or len(of) != 1 or getattr(self.find(of[0]), "place", place) == "keep":
            return False
        value = Value(self, "recompute", t)
        value.node = Node(self, Tensor.to, [of, {"dtype": t.dtype}], {})
        value.node.makes.append(("result", 0, weakref.ref(value)))
        return True
