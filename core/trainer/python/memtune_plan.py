"""A memory plan for PyTorch: what the repeated blocks save for backward stays, is made again, or waits in host memory.

    import memtune_plan
    plan = memtune_plan.apply(model)    # before the first step; compile=True: under torch.compile
    plan.remove()                       # the model is as it was

TRL and the Trainer of transformers: callbacks=[memtune_plan.PlanCallback()]. axolotl, in its YAML:
plugins: [memtune_plan.AxolotlPlugin]. Their own gradient checkpointing and activation offloading stay off.

How: while a block runs, a TorchFunctionMode sees each function of torch and saved_tensors_hooks what autograd saves.
What a function makes is a Value, found by its storage. PLAN gives each a place: "keep"; "host", where it is Moved; or
"recompute": the Node of its function makes it again, of the values that the function has read.
"""
from __future__ import annotations

import contextlib
import copy
import threading
import warnings
import weakref
from collections import Counter
from typing import Any, Callable

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

# --- data: written by memtune export ----------------------------------------------------------------------------------
PLAN: dict[str, Any] = {
    "name": "example", "path": "layers", "blocks": 2, "parameters": 0,
    "input": "keep",  # of the first block
    "regions": "",  # module paths that ops are named by; "": all
    # "module path/function#occurrence", by the places of what it returns and of what it saves for itself.
    "treatments": [{"blocks": [0, 1], "others": "recompute keep", "ops": {"host keep": "attn/linear#0"}}],
    "min_bytes": 1 << 20, "saved_min_bytes": 1 << 20, "stash_bytes": 1 << 29, "prefetch_blocks": 1,
    # Under torch.compile: what all blocks together may leave on the device, and what can move while a forward runs.
    "compile": {"left_bytes": 1 << 30, "hidden_bytes": 1 << 30}, "peak_bytes": 0,
}
# --- end of data ------------------------------------------------------------------------------------------------------

from memtune_values import *  # export writes the text of that file here


from memtune_moved import *  # and of that


class Forward:
    """What a block runs under the plan. A copy of the block runs what was there before."""

    def __init__(self, before: Callable[..., Any], run: Callable[..., Any]) -> None:
        self.before, self.run = before, run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.before, memo)


class Plan:
    """The plan at work on a model, whose forwards run one at a time."""

    runs = "forward"  # what of a block runs under the plan

    def __init__(self, model: nn.Module, plan: dict[str, Any]) -> None:
        self.plan, self.blocks, self.undo = plan, find_blocks(model, plan), list[Callable[[], Any]]()
        self.streams, self.group, self.index = Streams(next(self.blocks[0].parameters()).device), Group(None), 0
        self.stash: list[weakref.ref[Moved]] = []  # moved, and still on the device
        self.functions, self.thread, self.running = Functions(self), 0, False
        self.mode: Any = self.functions
        self.treatments = {i: ({op: places.split() for places, ops in t["ops"].items() for op in ops.split()},
                               t["others"].split()) for t in plan["treatments"] for i in t["blocks"]}
        # In-place forms may stand in branches that are never taken.
        self.missing = {op for ops, _ in self.treatments.values() for op in ops if "_#" not in op}
        for index, block in enumerate(self.blocks):
            self.wrap(index, block)

    def wrap(self, index: int, block: nn.Module) -> None:
        name, before = self.runs, block.__dict__.get(self.runs)
        self.prepare(block)
        inner = getattr(block, name)
        sharded = any(c.__name__ == "FSDPModule" for c in type(block).__mro__)

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return inner(*args, **kwargs)
            self.begin(index, next(filter(is_plain, tensors_in([args, kwargs])), None))
            try:
                with self.mode, torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
                    result = inner(*args, **kwargs)
            finally:
                self.running = False
            if sharded:  # what the block hands on is not made again from parameters that are gone by then
                for value in filter(None, map(self.find, filter(is_plain, tensors_in(result)))):
                    value.place = "keep" if value.place == "recompute" else value.place
            self.end(index)
            return result

        setattr(block, name, Forward(inner, self.apart(forward)))
        self.undo.append(lambda: setattr(block, name, before) if before else block.__dict__.pop(name))

    def apart(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """From the model around it, which somebody may compile."""
        return torch.compiler.disable(forward)

    def prepare(self, block: nn.Module) -> None:
        """From now on the module that runs is known, by its path in the block."""
        region, known = self.functions.region, set(self.plan["regions"].split())
        for name, module in block.named_modules():
            while known and name and name not in known:  # adapters, activations: as the module around
                name = name.rpartition(".")[0]
            if module is not block:
                enter = module.register_forward_pre_hook(lambda *_, name=name: region.append(name))
                leave = module.register_forward_hook(lambda *_: region.__delitem__(-1), always_call=True)
                self.undo += [enter.remove, leave.remove]

    def begin(self, index: int, hidden: torch.Tensor | None) -> None:
        block, thread = self.blocks[index], threading.get_ident()
        if (self.running or index > 0) and thread != self.thread:
            raise PlanError("several threads run the model at once, as nn.DataParallel does: the plan follows one; "
                            "DistributedDataParallel has a process for each")
        device = next(block.parameters()).device
        if device != self.streams.device:
            if index > 0:
                raise PlanError(f"the blocks are on {self.streams.device} and {device}: the plan is for one device")
            self.streams = Streams(device)  # moved since the plan was applied
        self.thread, self.running, self.index = thread, True, index
        self.group = Group(self.group if index > 0 else None)
        self.functions.region[:], self.functions.seen = [""], Counter()
        if index == 0 and hidden is not None and self.find(hidden) is None and self.plan["input"] == "host" and \
                nbytes(hidden) >= self.plan["min_bytes"]:
            Value(self, "host", hidden)

    def end(self, index: int) -> None:
        last = index == len(self.blocks) - 1
        self.release(0 if last else self.plan["stash_bytes"])
        if last and self.missing:
            warnings.warn("memtune_plan: the blocks run none of " + ", ".join(sorted(self.missing)) +
                          ": what the plan wants of these is not done")
            self.missing = set()

    def release(self, limit: int) -> None:
        """Drops sources that are copied; beyond `limit` bytes the compute stream waits for the oldest."""
        held = [m for ref in self.stash if (m := ref()) is not None and m.here is not None]
        count = sum(m.count for m in held)
        for moved in held:
            if count > limit or moved.last is None or moved.last.query():
                moved.leave()
                count -= moved.count
        self.stash = [weakref.ref(m) for m in held if m.here is not None]

    def find(self, t: torch.Tensor) -> Value | None:
        value = getattr(t.untyped_storage(), "memtune", None)
        value = value() if isinstance(value, weakref.ref) else value
        return value if value is not None and value.run is self and value.version == t._version else None

    def needed(self, t: torch.Tensor) -> Value:
        value = self.find(t) or Value(self, "keep", t)
        value.use(t)
        return value

    def pack(self, t: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunction():
            t = t if t.grad_fn is None else t.detach()  # a function's result would hold itself through its node
            if self.functions.inputs is not None:
                self.functions.pack(t)
            return View(self.needed(t), t) if is_plain(t) else (t, t._version)

    def unpack(self, saved: Any) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            if isinstance(saved, View):
                saved.group.open(self.plan["prefetch_blocks"])
                return saved.tensor(saved.value.get())
            if saved[0]._version != saved[1]:
                raise RuntimeError(CHANGED)
            return saved[0]

    def remove(self) -> None:
        """The model is as it was before."""
        for undo in reversed(self.undo):
            undo()
        self.undo = []


def find_blocks(model: nn.Module, plan: dict[str, Any]) -> list[nn.Module]:
    lists = {name: list(m) for name, m in model.named_modules()
             if isinstance(m, (nn.ModuleList, nn.Sequential)) and len({type(c) for c in m}) == 1}
    fitting = {name: blocks for name, blocks in lists.items() if len(blocks) == plan["blocks"]}
    named = [name for name in fitting if ("." + name).endswith("." + plan["path"])] or list(fitting)
    if not named:
        there = ", ".join(f"'{name}' has {len(b)} of {type(b[0]).__name__}" for name, b in lists.items())
        raise PlanError(f"the plan is for {plan['blocks']} blocks in '{plan['path']}'; in this model "
                        f"{there or 'nothing is repeated'}")
    blocks = max((fitting[name] for name in named), key=lambda b: sum(p.numel() for p in b[0].parameters()))
    if any(isinstance(f, Forward) for b in blocks for f in b.__dict__.values()):
        raise PlanError("the model has a plan already: remove() it first")
    return blocks


from memtune_compiled import *  # and of that


def apply(model: nn.Module, *, compile: bool = False, check: bool = True) -> Plan:
    """Puts the plan to work. compile: compiles the blocks under a memory budget, and moves what they then save."""
    if tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2]) < (2, 6):
        raise PlanError(f"the plan needs torch 2.6 or newer (made for 2.11), this is {torch.__version__}")
    if any(hasattr(m, "_fsdp_wrapped_module") for m in model.modules()):
        raise PlanError("the model is wrapped by FullyShardedDataParallel: the plan works with fully_shard (FSDP2)")
    if any(m._compiled_call_impl is not None or hasattr(m, "_orig_mod") for m in model.modules()):
        raise PlanError("the model is compiled already: apply(model, compile=True) compiles its blocks instead")
    if any(getattr(m, "gradient_checkpointing", False) for m in model.modules()):
        raise PlanError("gradient checkpointing is on: switch it off in the trainer, the plan takes its place")
    every = sum(p.numel() for p in model.parameters())
    count = sum(p.numel() for name, p in model.named_parameters() if "lora_" not in name)  # an adapter's or not
    packed = any(not p.is_floating_point() for p in model.parameters())  # several to an element
    if check and PLAN["parameters"] and PLAN["parameters"] not in (count, every) and not packed:
        raise PlanError(f"the plan is for a model of {PLAN['parameters']} parameters, this one has {count}; "
                        "check=False applies it all the same")
    return (Compiled if compile else Plan)(model, PLAN)


def __getattr__(name: str) -> Any:
    """PlanCallback and AxolotlPlugin, made when somebody asks for them: then their trainer is there."""
    if name == "PlanCallback":
        from transformers import TrainerCallback

        class PlanCallback(TrainerCallback):
            """The plan from the beginning of a training to its end."""

            plan: Plan | None = None

            def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
                self.on_train_end()  # of a training that was stopped
                self.plan = apply(model)

            def on_train_end(self, *args: Any, **kwargs: Any) -> None:
                if self.plan is not None:
                    self.plan.remove()

        return PlanCallback
    if name == "AxolotlPlugin":
        from axolotl.integrations.base import BasePlugin
        return type(name, (BasePlugin,), {"post_model_load": lambda self, cfg, model: apply(model) and None})
    raise AttributeError(name)
