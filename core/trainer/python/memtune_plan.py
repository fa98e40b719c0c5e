"""A memory plan for PyTorch: what the repeated blocks save for backward stays, is made again, or waits in host memory.

    import memtune_plan
    plan = memtune_plan.apply(model)    # before the first step; compile=True: under torch.compile
    plan.remove()                       # the model is as it was

TRL and the Trainer of transformers: callbacks=[memtune_plan.PlanCallback()]. axolotl, in its YAML:
plugins: [memtune_plan.AxolotlPlugin]. Their own gradient checkpointing and activation offloading stay off.
"""
from __future__ import annotations

import warnings
import weakref
from collections import Counter
from typing import Any, Callable

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# export writes the text of this here
from memtune_values import Group, Node, PlanError, Saved, Value, Values, View, is_plain, nbytes, tensors_in

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


ALIASES = dict(pair.split(":") for pair in (
    "float:to half:to bfloat16:to double:to type:to type_as:to rdiv:div truediv:div rtruediv:div true_divide:div radd:add "
    "rmul:mul multiply:mul rpow:pow subtract:sub getitem:index concat:cat concatenate:cat contiguous:clone").split())
BARE = ("empty", "new_", "zeros", "ones", "full")  # what these make gets its content from elsewhere
OVERWRITES = ("bernoulli_", "uniform_", "normal_", "exponential_", "random_", "copy_", "fill_", "zero_")


class Call:
    """A function of torch while it runs: what it makes, and where the plan wants that."""

    def __init__(self, name: str) -> None:
        self.name = ALIASES.get(name.strip("_"), name.strip("_"))
        self.places: list[str] | None = None
        self.values: list[tuple[Value, int, int]] = []  # value, storage, bytes


class Functions(TorchFunctionMode):
    def __init__(self, run: Plan) -> None:
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
    def __init__(self, run: Plan) -> None:
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
        self.writes = [(i, a.name) for i, a in enumerate(func._schema.arguments) if a.alias_info and a.alias_info.is_write]
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.bare, self.overwrites = name.startswith(BARE), name in OVERWRITES
        returns = func._schema.returns
        self.view = bool(returns) and returns[0].alias_info is not None and not self.writes
        # Others' kernels and collectives are never run twice, nor is what moves averages.
        self.again = func.namespace == "aten" and "batch_norm" not in name and not self.bare


class Plan(Values):
    """The plan at work on a model, whose forwards run one at a time."""

    def __init__(self, model: nn.Module, plan: dict[str, Any], compiled: bool) -> None:
        self.blocks = find_blocks(model, plan)
        super().__init__(plan, next(self.blocks[0].parameters()).device)
        self.undo: list[Callable[[], Any]] = []
        self.traits: dict[Any, Traits] = {}
        self.call: Call | None = None
        self.region, self.seen, self.index = [""], Counter[str](), 0
        self.treatments = {i: ({op: places.split() for places, ops in t["ops"].items() for op in ops.split()},
                               t["others"].split()) for t in plan["treatments"] for i in t["blocks"]}
        self.regions = set(plan["regions"].split())
        self.missing = {op for ops, _ in self.treatments.values() for op in ops}
        if compiled:
            import torch._functorch.config as functorch
            budget, functorch.activation_memory_budget = functorch.activation_memory_budget, plan["compile"]["budget"]
            self.undo.append(lambda: setattr(functorch, "activation_memory_budget", budget))
        for index, block in enumerate(self.blocks):
            (self.wrap_compiled if compiled else self.wrap)(index, block)
            block.__dict__["_memtune_plan"] = self
            self.undo.append(lambda b=block: b.__dict__.pop("_memtune_plan"))

    def wrap(self, index: int, block: nn.Module) -> None:
        def track(name: str, module: nn.Module) -> None:
            enter = module.register_forward_pre_hook(lambda *_: self.region.append(name))
            leave = module.register_forward_hook(lambda *_: self.region.__delitem__(-1), always_call=True)
            self.undo += [enter.remove, leave.remove]

        for name, module in block.named_modules():
            while self.regions and name and name not in self.regions:  # adapters, activations: as the module around
                name = name.rpartition(".")[0]
            if module is not block:
                track(name, module)
        sharded = any(c.__name__ == "FSDPModule" for c in type(block).__mro__)
        own, inner, functions, ops = block.__dict__.get("forward"), block.forward, Functions(self), Ops(self)

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return inner(*args, **kwargs)
            self.begin(index, args, kwargs)
            with ops, functions, torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
                result = inner(*args, **kwargs)
            if sharded:  # what the block hands on is not made again from parameters that are gone by then
                for t in filter(is_plain, tensors_in(result)):
                    if (value := self.find(t)) is not None and value.place == "recompute":
                        value.held = t.untyped_storage()
                        self.disown(value.held)
            self.end(index)
            return result

        block.forward = forward  # type: ignore[method-assign]
        self.undo.append(lambda: block.__dict__.pop("forward") if own is None else setattr(block, "forward", own))

    def wrap_compiled(self, index: int, block: nn.Module) -> None:
        before, moves = block._compiled_call_impl, self.plan["compile"]
        block.compile()
        inner = block._compiled_call_impl

        def pack(t: torch.Tensor) -> Saved:  # also sees the tensors that stand in while it compiles
            count = nbytes(t) if is_plain(t) else 0
            if index in moves["blocks"] and self.plan["min_bytes"] <= count <= moves["max_bytes"] and not self.find(t):
                self.add(t, Value(self, "host"))
            return self.pack(t)

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled():
                return inner(*args, **kwargs)
            self.begin(index, args, kwargs)
            own = [self.add(p, Value(self, "keep")) for p in [*block.parameters(), *block.buffers()] if is_plain(p)]
            with torch.autograd.graph.saved_tensors_hooks(pack, self.unpack):
                result = inner(*args, **kwargs)
            self.end(index)
            del own
            return result

        block._compiled_call_impl = forward
        self.undo.append(lambda: setattr(block, "_compiled_call_impl", before))

    def begin(self, index: int, args: Any, kwargs: Any) -> None:
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

    # Forward

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
        again = plain and traits.again and "recompute" in self.places(call, False)
        random = self.streams.generator() if again and traits.random else None
        olds = {t.untyped_storage()._cdata: self.overwrite(t) for t in written}
        again = again and all(o is not None and (o.node or o.bare and traits.overwrites) for o in olds.values())
        result = func(*args, **kwargs)

        def view(a: Any) -> Any:
            if isinstance(a, torch.Tensor):
                return View(olds.get(a.untyped_storage()._cdata) or self.needed(a), a)
            if isinstance(a, dict):
                return {k: view(v) for k, v in a.items()}
            return type(a)(map(view, a)) if type(a) in (list, tuple) else a

        made = [(i, t) for i, t in enumerate(tensors_in(result))
                if plain and is_plain(t) and t.untyped_storage()._cdata not in known and self.find(t) is None]
        if not made and not olds:
            return result
        self.places(call, True)
        node = Node(self, func, view([list(args), kwargs]), random) if again else None
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
    if any(hasattr(b, "_memtune_plan") for b in blocks):
        raise PlanError("the model has a plan already: remove() it first")
    return blocks


def apply(model: nn.Module, *, compile: bool = False, check: bool = True) -> Plan:
    """Puts the plan to work. compile: compiles the blocks under a memory budget, and moves what they then save."""
    if tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2]) < (2, 6):
        raise PlanError(f"the plan needs torch 2.6 or newer (made for 2.11), this is {torch.__version__}")
    if any(hasattr(m, "_fsdp_wrapped_module") for m in model.modules()):
        raise PlanError("the model is wrapped by FullyShardedDataParallel: the plan works with fully_shard (FSDP2)")
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

            def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
                self.plan = apply(model)

            def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
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
