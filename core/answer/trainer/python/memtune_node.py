"""Functions that backward can recompute. Export puts this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from memtune_values import Value, View, is_plain, storage_of, tensors_in, whole

if TYPE_CHECKING:
    from memtune_plan import Plan

# --- recomputed functions ---------------------------------------------------------------------------------------------

# Python's names of functions, each with the plan's name.
ALIASES = dict(pair.split(":") for pair in (
    "float:to half:to bfloat16:to double:to type:to type_as:to rdiv:div truediv:div rtruediv:div true_divide:div "
    "radd:add rmul:mul multiply:mul rpow:pow subtract:sub getitem:index concat:cat concatenate:cat contiguous:clone "
    "iadd:add_ isub:sub_ imul:mul_ idiv:div_ itruediv:div_ ipow:pow_ setitem:copy_").split())
# Functions of these modules can be recomputed. ONCE are exceptions: they update averages, or others fill their memory.
AGAIN = (None, "torch", "torch._C._nn", "torch._tensor", "torch.functional", "torch.nn.functional", "torch._ops.aten")
ONCE = ("batch_norm", "instance_norm", "empty", "new_", "zeros", "ones", "full")


def replaced(a: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """A copy of `a` with every element of that kind changed."""
    if isinstance(a, dict):
        return {k: replaced(v, kind, change) for k, v in a.items()}
    if type(a) in (list, tuple):
        return type(a)(replaced(v, kind, change) for v in a)
    return change(a) if isinstance(a, kind) else a


class Node:
    """A function of the forward that can be recomputed, with the same arguments, modes and random numbers."""

    def __init__(self, run: Plan, func: Any, args: Any, olds: dict[int, Value], state: Tensor | None = None) -> None:
        self.func, self.olds, self.state, self.streams = func, olds, state, run.streams
        # One View per tensor, because some functions check whether q is k.
        views = {id(t): View(run, t, olds.get(storage_of(t)) or run.needed(t)) for t in tensors_in(args)}
        self.args, self.views = replaced(args, Tensor, lambda t: views[id(t)]), list(views.values())
        self.grad, self.cast = torch.is_grad_enabled() and not olds, run.cast_dtype()
        self.makes: list[tuple[str, int, weakref.ref[Value]]] = []  # key and index in `made` of rerun

    def rerun(self) -> None:
        kind, generator, saved = self.streams.device.type, self.streams.generator, list[Tensor]()
        copies = {old: whole(old.get()).clone() for old in self.olds.values()}
        tensors = {v: v.tensor(copies[v.value] if v.value in copies else v.value.get()).requires_grad_(
            v.grad and self.grad) for v in self.views}
        args, kwargs = replaced(self.args, View, tensors.get)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            if self.cast is not None or torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, dtype=self.cast, enabled=self.cast is not None))
            stack.enter_context(saved_tensors_hooks(lambda t: saved.append(t.detach()), lambda _: None))  # type: ignore
            if self.state is not None:
                stack.callback(generator.set_state, generator.get_state())
                generator.set_state(self.state)
            results = tensors_in(self.func(*args, **kwargs))
        made = {"result": results, "saved": list(filter(is_plain, saved)), "written": list(copies.values())}
        for what, i, ref in self.makes:
            if (value := ref()) is not None:
                value.hold(made[what][i])
        self.args, self.views, self.olds = None, [], {}
