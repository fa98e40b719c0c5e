"""A memory plan for PyTorch. It keeps, recomputes or offloads to CPU memory what repeated blocks save for backward.

    import memtune_plan
# [states]
    plan = memtune_plan.apply(model, optimizer)    # before the first step
# [resident]
    plan = memtune_plan.apply(model)    # before the first step
# [end]
    plan.remove()                       # restores the model

TRL and the Trainer of transformers: callbacks=[memtune_plan.PlanCallback()]. axolotl, in its YAML:
plugins: [memtune_plan.AxolotlPlugin]. Turn off their own gradient checkpointing and activation offloading.

# [eager]
How: while a block runs, a TorchFunctionMode sees each torch function, and saved_tensors_hooks see what autograd saves.
Each storage that a function creates is a Value. PLAN gives each Value a place: "keep", "host" or "recompute". To
recompute it, the function's Node calls the function again with the same inputs.
# [states]
Parameters and optimizer states of blocks are in host memory, and loaded a block ahead. The optimizer updates each block
inside backward. With apply(model, optimizer, deferred=True), which gradient clipping and accumulation need, the next
forward updates it. PlanCallback chooses by the Trainer's arguments. Only the blocks can read their parameters, others
get copies by state_dict().
# [compiled]
How: apply compiles each block under one of two activation memory budgets. saved_tensors_hooks see what it saves. They
offload part of it to host memory, until the device holds no more than under the plan.
# [end]
"""
from __future__ import annotations

# [eager]
import contextlib
# [end]
import copy
# [states]
import sys
# [end]
import threading
# [eager]
import warnings
# [end]
import weakref
from collections import Counter
# [states]
from functools import partial
# [eager]
from typing import Any, Callable
# [compiled]
from functools import partial
from itertools import combinations_with_replacement
from typing import Any, NamedTuple
# [end]

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
# [eager]
from torch.overrides import TorchFunctionMode
# [end]

# --- data: written by memtune export ----------------------------------------------------------------------------------
PLAN: dict[str, Any] = {
    "name": "example", "path": "layers", "blocks": 2, "parameters": 0,
    "input": "keep",  # place of the first block's input
    "regions": "",  # module paths in the names of ops; "": all
    # "module path/function#occurrence", by two places: of its result, and of what it saves for its own backward.
    "treatments": [{"blocks": [0, 1], "others": "recompute keep", "ops": {"host keep": "attn/linear#0"}}],
    "min_bytes": 1 << 20, "saved_min_bytes": 1 << 20, "stash_bytes": 1 << 29, "prefetch_blocks": 1,
    # Parameters and optimizer states in host memory, by block; optimizer states of what is outside of blocks.
    "states": {"parameters": [], "moments": [], "outside": 0, "deferred": 0},
    # Bytes that all compiled blocks may keep on the device, and bytes that can be offloaded during a forward.
    "compile": {"left_bytes": 1 << 30, "hidden_bytes": 1 << 30}, "peak_bytes": 0,
}
# --- end of data ------------------------------------------------------------------------------------------------------

# [include values]

# [eager]

# [include node]

# [states]

# [include states]

# [end]


# [eager]
class Plan(TorchFunctionMode):
    """Applies the plan to a model, one forward at a time. It sees each torch function that a block calls."""
# [compiled]
class Plan:
    """Applies the plan to a model, one forward at a time. The compiler chooses what a block saves, under a budget set
    here. Part of that is offloaded, until the device keeps no more than the plan allows."""
# [end]

    # [states]
    def __init__(self, model: nn.Module, plan: dict[str, Any], optimizer: Any, deferred: bool, device: Any) -> None:
    # [resident]
    def __init__(self, model: nn.Module, plan: dict[str, Any]) -> None:
    # [end]
        self.plan, self.blocks, self.undo = plan, find_blocks(model, plan), list[Any]()
        # [states]
        device = next(self.blocks[0].parameters()).device if device is None else torch.empty(0, device=device).device
        # [resident]
        device = next(self.blocks[0].parameters()).device
        # [end]
        self.streams, self.index = Streams(device), 0
        self.thread, self.running = 0, False
        # [moves]
        self.stash: list[weakref.ref[Value]] = []  # offloaded, but still on the device
        self.groups: list[list[weakref.ref[Value]]] = [[]]  # offloaded, a list for each recent block
        # [eager]
        self.region, self.seen = [""], Counter[str]()  # path of the running module; calls so far
        self.saved: list[tuple[View, Tensor]] | None = None  # by autograd, for the running function
        self.places = {i: ({op: places.split() for places, ops in t["ops"].items() for op in ops.split()},
                           t["others"].split()) for t in plan["treatments"] for i in t["blocks"]}
        # Without in-place functions, which may be in branches that never run.
        self.missing = {op for ops, _ in self.places.values() for op in ops if "_#" not in op}
        name, run = "forward", torch.compiler.disable(self.forward)  # eager in a compiled model
        # [states]
        self.states = OffloadedModelStates(model, self.blocks, optimizer, plan["states"], deferred, self.streams)
        run = torch.compiler.disable(self.forward_loaded)
        self.undo.append(self.states.remove)
        # [compiled]
        self.sizes: dict[tuple[int, int], int] = {}  # saved by a forward: (block, index) -> bytes
        self.moves: set[tuple[int, int]] | None = None  # keys to offload; None: all
        self.known: dict[tuple[int, int], int] = {}  # the sizes that moves was chosen for
        self.hooks = torch.compiler.disable(self.pack), torch.compiler.disable(self.unpack)
        self.budgets: dict[str, tuple[float, float]] = {}  # by graph code
        self.graphs: list[list[Partition]] = []  # earlier ones of the running block
        self.second: dict[int, Any] | None = None  # calls compiled under it, by block
        self.backends = [partial(self.compile, second) for second in (False, True)]
        self.undo.append(self.backends.clear)
        config = torch._dynamo.config  # its default 8 is too small: two budgets, evaluation, lengths
        self.undo.append(partial(setattr, config, "cache_size_limit", config.cache_size_limit))
        config.cache_size_limit = max(config.cache_size_limit, 64)
        name, run = "_compiled_call_impl", self.forward
        # [end]
        for index, block in enumerate(self.blocks):
            before = block.__dict__.get(name)
            # [eager]
            self.name_modules(block)
            # [compiled]
            block.compile(backend=self.backends[0])
            # [end]
            setattr(block, name, Forward(index, getattr(block, name), run))
            self.undo.append(lambda block=block, before=before:
                             setattr(block, name, before) if before else block.__dict__.pop(name))

    def remove(self) -> None:
        """Restores the model."""
        while self.undo:
            self.undo.pop()()

    def forward(self, index: int, inner: Any, args: Any, kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return inner(*args, **kwargs)
        self.begin(index, tensors_in([args, kwargs]))
        try:
            # [eager]
            with self, saved_tensors_hooks(self.pack, self.unpack):
                result = inner(*args, **kwargs)
            # [compiled]
            with saved_tensors_hooks(*self.hooks):
                result = (self.second or {}).get(index, inner)(*args, **kwargs)
            # [end]
        finally:
            self.running = False
        last = index == len(self.blocks) - 1
        # [eager]
        if any(c.__name__ == "FSDPModule" for c in type(self.blocks[index]).__mro__):
            for value in filter(None, map(self.find, tensors_in(result))):  # its parameters are freed by then
                value.place = "keep" if value.place == "recompute" else value.place
        if last and self.missing:
            warnings.warn("memtune_plan: the blocks run none of " + ", ".join(sorted(self.missing)) +
                          ": what the plan wants of these is not done")
            self.missing = set()
        # [compiled]
        if last and self.sizes != self.known:
            self.moves, self.known = self.choose(self.sizes)[0], self.sizes
        # [moves]
        self.release(0 if last else self.plan["stash_bytes"])
        # [end]
        return result

    # [states]
    def forward_loaded(self, index: int, inner: Any, args: Any, kwargs: Any) -> Any:
        self.states.begin_forward(index, tensors_in([args, kwargs]))
        result = self.forward(index, inner, args, kwargs)
        self.states.end_forward(index, tensors_in(result))
        return result

    # [end]
    def begin(self, index: int, inputs: list[Tensor]) -> None:
        thread, device = threading.get_ident(), next(self.blocks[index].parameters()).device
        if (self.running or index > 0) and thread != self.thread:
            raise PlanError("several threads run the model at once, as nn.DataParallel does: the plan follows one; "
                            "DistributedDataParallel has a process for each")
        if device != self.streams.device:
            if index > 0:
                raise PlanError(f"the blocks are on {self.streams.device} and {device}: the plan is for one device")
            # [states]
            raise PlanError(f"the model has moved to {device}, and parameters that are offloaded cannot: remove() the "
                            "plan first")
            # [resident]
            self.streams = Streams(device)  # the model moved after apply
            # [end]
        self.thread, self.running, self.index = thread, True, index
        # [moves]
        self.groups = [*(self.groups if index else []), []][-1 - self.plan["prefetch_blocks"]:]
        # [eager]
        self.region, self.seen = [""], Counter()
        # [eager moves]
        hidden = next(filter(is_plain, inputs), None)
        if index == 0 and hidden is not None and self.find(hidden) is None and self.plan["input"] == "host" and \
                nbytes(hidden) >= self.plan["min_bytes"]:
            Value(self, "host", hidden)
        # [compiled]
        self.graphs, self.fixed = [], set[int]()
        self.sizes = self.sizes if index else {}
        # [end]

    # [moves]
    def release(self, limit: int) -> None:
        """Frees tensors whose copies have ended. Above `limit` bytes the compute stream waits for the oldest copies."""
        held = [v for ref in self.stash if (v := ref()) is not None and v.kept is not None]
        count = sum(v.count for v in held)
        for value in held:
            if count > limit or value.copied is None or value.copied.query():
                value.leave()
                count -= value.count
        self.stash = [weakref.ref(v) for v in held if v.kept is not None]

    # [end]
    def find(self, t: Tensor) -> Value | None:
        value = getattr(t.untyped_storage(), "memtune", None) if is_plain(t) else None
        value = value() if isinstance(value, weakref.ref) else value
        return value if value is not None and value.run is self and value.version == t._version else None

    def needed(self, t: Tensor) -> Value:
        # [eager]
        value = self.find(t) or Value(self, "keep", t)
        # [compiled]
        value = self.find(t) or self.placed(t)
        # [end]
        value.use(t)
        return value

    def pack(self, t: Tensor) -> View | tuple[Tensor, int]:
        with torch._C.DisableTorchFunction():
            t = t if t.grad_fn is None else t.detach()  # a result would keep itself alive through its grad_fn
            if not is_plain(t):
                return t, t._version
            view = View(self, t)
            # [eager]
            if self.saved is not None:
                self.saved.append((view, t))
                return view
            # [end]
            view.value = self.needed(t)
            return view

    def unpack(self, saved: View | tuple[Tensor, int]) -> Tensor:
        with torch._C.DisableTorchFunction():
            if isinstance(saved, View) and saved.value is not None:
                # [moves]
                for group in reversed(saved.groups):
                    while group:
                        if (value := group.pop()()) is not None:
                            value.restore()
                # [end]
                return saved.tensor(saved.value.get())
            if isinstance(saved, View) or saved[0]._version != saved[1]:
                raise RuntimeError(CHANGED)
            return saved[0]

    # [eager]
# [include functions]
    # [compiled]
# [include compiled]


# [include partitions]
# [end]


class Forward:
    """Replaces the forward of a block. A deep copy of the block gets the original forward."""

    def __init__(self, index: int, inner: Any, run: Any) -> None:
        self.index, self.inner, self.run = index, inner, run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self.index, self.inner, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.inner, memo)


def find_blocks(model: nn.Module, plan: dict[str, Any]) -> list[nn.Module]:
    lists = {name: list(m) for name, m in model.named_modules()
             if isinstance(m, (nn.ModuleList, nn.Sequential)) and len({type(c) for c in m}) == 1}
    fitting = {name: blocks for name, blocks in lists.items() if len(blocks) == plan["blocks"]}
    named = [name for name in fitting if ("." + name).endswith("." + plan["path"])] or list(fitting)
    if not named:
        there = ", ".join(f"'{name}' has {len(b)} of {type(b[0]).__name__}" for name, b in lists.items())
        raise PlanError(f"the plan is for {plan['blocks']} blocks in '{plan['path']}'; in this model "
                        f"{there or 'nothing is repeated'}")
    return max((fitting[name] for name in named), key=lambda b: sum(p.numel() for p in b[0].parameters()))


# [states]
def apply(model: nn.Module, optimizer: Any, *, deferred: bool | None = None, device: Any = None,
          check: bool = True) -> Plan:
    """Applies the plan. deferred: the optimizer updates blocks in the next forward; None: as measured. device: to train
    a model on that is on the CPU. check=False also accepts another number of parameters. Raises PlanError if it does
    not fit."""
    plain = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
# [resident]
def apply(model: nn.Module, *, check: bool = True) -> Plan:
    """Applies the plan. check=False also accepts another number of parameters. Raises PlanError if it does not fit."""
# [end]
    modules, torch_is = list(model.modules()), tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
    every = sum(p.numel() for p in model.parameters())
    count = sum(p.numel() for name, p in model.named_parameters() if "lora_" not in name)  # without adapters
    packed = any(not p.is_floating_point() for p in model.parameters())  # quantized, several per element
    for wrong, why in (
            (torch_is < (2, 6), f"the plan needs torch 2.6 or newer, this is {torch.__version__}"),
            (any(hasattr(m, "_fsdp_wrapped_module") for m in modules),
             "the model is wrapped by FullyShardedDataParallel: the plan works with fully_shard (FSDP2)"),
            (any(isinstance(f, Forward) for m in modules for f in m.__dict__.values()),
             "the model has a plan already: remove() it first"),
            (any(m._compiled_call_impl is not None or hasattr(m, "_orig_mod") for m in modules),
             "the model is compiled already: memtune export --compile writes a plan that compiles its blocks"),
            (any(getattr(m, "gradient_checkpointing", False) for m in modules),
             "gradient checkpointing is on: switch it off in the trainer, the plan takes its place"),
            (check and not packed and PLAN["parameters"] not in (0, count, every),
             f"the plan is for a model of {PLAN['parameters']} parameters, this one has {count}; check=False applies "
             "it all the same"),
            # [states]
            *refusals(optimizer, plain),
            # [end]
    ):
        if wrong:
            raise PlanError(why)
    # [states]
    return Plan(model, PLAN, plain, bool(PLAN["states"]["deferred"]) if deferred is None else deferred, device)
    # [resident]
    return Plan(model, PLAN)
    # [end]


def __getattr__(name: str) -> Any:
    """Creates PlanCallback and AxolotlPlugin on access, because they import their trainer."""
    # [states]
    def begin(self: Any, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None,
              **_: Any) -> None:
        end(self)  # the plan of a training that was interrupted
        self.plan = apply(model, optimizer,
                          deferred=args.gradient_accumulation_steps > 1 or bool(args.max_grad_norm))
    # [resident]
    def begin(self: Any, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        end(self)  # the plan of a training that was interrupted
        self.plan = apply(model)
    # [end]

    def end(self: Any, *_: Any, **__: Any) -> None:
        if hasattr(self, "plan"):
            self.plan.remove()

    if name == "PlanCallback":
        from transformers import TrainerCallback
        return type(name, (TrainerCallback,), {"on_train_begin": begin, "on_train_end": end})
    if name == "AxolotlPlugin":
        from axolotl.integrations.base import BasePlugin
        # [states]
        return type(name, (BasePlugin,), {"add_callbacks_pre_trainer": lambda self, cfg, model: [
            __getattr__("PlanCallback")()]})
        # [resident]
        return type(name, (BasePlugin,), {"post_model_load": lambda self, cfg, model: apply(model) and None})
        # [end]
    raise AttributeError(name)
