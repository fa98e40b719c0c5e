"""A memory plan for PyTorch: what the repeated blocks save for backward stays, is made again, or waits in host memory.

    import memtune_plan
    plan = memtune_plan.apply(model)    # before the first step; compile=True: under torch.compile
    plan.remove()                       # the model is as it was

TRL and the Trainer of transformers: callbacks=[memtune_plan.PlanCallback()]. axolotl, in its YAML:
plugins: [memtune_plan.AxolotlPlugin]. Their own gradient checkpointing and activation offloading stay off.
"""
from __future__ import annotations

import contextlib
import copy
import types
import warnings
from collections import Counter
from typing import Any, Callable

import torch
from torch import nn

# export writes the text of these here
from memtune_ops import Functions, Ops, Recorder
from memtune_values import Group, PlanError, Saved, Streams, Value, is_plain, nbytes, tensors_in

# --- data: written by memtune export ----------------------------------------------------------------------------------
PLAN: dict[str, Any] = {
    "name": "example", "path": "layers", "blocks": 2, "parameters": 0,
    "input": "keep",  # of the first block
    "regions": "",  # module paths that ops are named by; "": all
    # "module path/function#occurrence", by the places of what it returns and of what it saves for itself.
    "treatments": [{"blocks": [0, 1], "others": "recompute keep", "ops": {"host keep": "attn/linear#0"}}],
    "min_bytes": 1 << 20, "saved_min_bytes": 1 << 20, "stash_bytes": 1 << 29, "prefetch_blocks": 1,
    "compile": {"budget": 0.5, "blocks": [], "max_bytes": 1 << 26},
}
# --- end of data ------------------------------------------------------------------------------------------------------


class Forward:
    """What a block runs under the plan. A copy of the block runs what was there before."""

    def __init__(self, block: nn.Module, before: Any, run: Callable[..., Any]) -> None:
        self.block, self.before, self.run = block, before, run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self.before:
            return copy.deepcopy(self.before, memo)
        return types.MethodType(type(self.block).forward, memo.get(id(self.block), self.block))


class Plan(Recorder):
    """The plan at work on a model, whose forwards run one at a time."""

    def __init__(self, model: nn.Module, plan: dict[str, Any], compiled: bool) -> None:
        self.blocks = find_blocks(model, plan)
        super().__init__(plan, next(self.blocks[0].parameters()).device)
        self.undo: list[Callable[[], Any]] = []
        self.regions = set(plan["regions"].split())
        if compiled:
            import torch._functorch.config as functorch
            budget, functorch.activation_memory_budget = functorch.activation_memory_budget, plan["compile"]["budget"]
            self.undo.append(lambda: setattr(functorch, "activation_memory_budget", budget))
        for index, block in enumerate(self.blocks):
            self.wrap(index, block, compiled)

    def wrap(self, index: int, block: nn.Module, compiled: bool) -> None:
        name = "_compiled_call_impl" if compiled else "forward"
        modes: list[Any] = [] if compiled else [Ops(self), Functions(self)]
        before = block.__dict__.get(name)
        if compiled:
            block.compile()
        else:
            self.track(block)
        inner, pack = getattr(block, name), self.pack_compiled if compiled else self.pack
        sharded = any(c.__name__ == "FSDPModule" for c in type(block).__mro__)

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return inner(*args, **kwargs)
            self.begin(index, args, kwargs)
            own = [self.add(p, Value(self, "keep")) for p in [*block.parameters(), *block.buffers()] if compiled]
            with contextlib.ExitStack() as stack:
                for mode in modes:
                    stack.enter_context(mode)
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(pack, self.unpack))
                result = inner(*args, **kwargs)
            if sharded:  # what the block hands on is not made again from parameters that are gone by then
                for t in filter(is_plain, tensors_in(result)):
                    if (value := self.find(t)) is not None and value.place == "recompute":
                        value.held = t.untyped_storage()
                        self.disown(value.held)
            self.end(index)
            own.clear()
            return result

        setattr(block, name, Forward(block, before, forward))
        self.undo.append(lambda: setattr(block, name, before) if before else block.__dict__.pop(name))

    def track(self, block: nn.Module) -> None:
        """The module that runs, by its path in the block."""
        def of(name: str, module: nn.Module) -> None:
            enter = module.register_forward_pre_hook(lambda *_: self.region.append(name))
            leave = module.register_forward_hook(lambda *_: self.region.__delitem__(-1), always_call=True)
            self.undo += [enter.remove, leave.remove]

        for name, module in block.named_modules():
            while self.regions and name and name not in self.regions:  # adapters, activations: as the module around
                name = name.rpartition(".")[0]
            if module is not block:
                of(name, module)

    def pack_compiled(self, t: torch.Tensor) -> Saved:
        """Also sees the tensors that stand in while a block is compiled."""
        moves, count = self.plan["compile"], nbytes(t) if is_plain(t) else 0
        if self.index in moves["blocks"] and max(self.plan["min_bytes"], 1) <= count <= moves["max_bytes"] and \
                self.find(t) is None:
            self.add(t, Value(self, "host"))
        return self.pack(t)

    def begin(self, index: int, args: Any, kwargs: Any) -> None:
        device = next(self.blocks[index].parameters()).device
        if device != self.streams.device:
            if index > 0:
                raise PlanError(f"the blocks are on {self.streams.device} and {device}: the plan is for one device")
            self.streams = Streams(device)  # moved since the plan was applied
        self.index, self.region, self.call, self.busy = index, [""], None, False
        self.group, self.seen = Group(self.group if index > 0 else None), Counter()
        self.purge()
        hidden = next(iter(tensors_in([args, kwargs])), None)
        if index == 0 and hidden is not None and is_plain(hidden) and self.find(hidden) is None and \
                self.plan["input"] == "host" and nbytes(hidden) >= self.plan["min_bytes"]:
            self.add(hidden, Value(self, "host"))

    def end(self, index: int) -> None:
        last = index == len(self.blocks) - 1
        self.purge()
        self.release(0 if last else self.plan["stash_bytes"])
        if last and self.missing and self.traits:
            warnings.warn("memtune_plan: the blocks run none of " + ", ".join(sorted(self.missing)) +
                          ": what the plan wants of these is not done")
            self.missing = set()

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
    return Plan(model, PLAN, compile)


def __getattr__(name: str) -> Any:
    """PlanCallback and AxolotlPlugin, made when somebody asks for them: then their trainer is there."""
    if name == "PlanCallback":
        from transformers import TrainerCallback

        class PlanCallback(TrainerCallback):
            """The plan from the beginning of a training to its end."""

            plan: Plan | None = None

            def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
                if self.plan is not None:  # of a training that was stopped
                    self.plan.remove()
                self.plan = apply(model)

            def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                if self.plan is not None:
                    self.plan.remove()

        return PlanCallback
    if name == "AxolotlPlugin":
        from axolotl.integrations.base import BasePlugin

        class AxolotlPlugin(BasePlugin):  # type: ignore[misc]
            """The plan as soon as the model is loaded."""

            def post_model_load(self, cfg: Any, model: Any) -> None:
                apply(model)

        return AxolotlPlugin
    raise AttributeError(name)
