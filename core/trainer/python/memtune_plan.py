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
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

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

ALIASES = {"float": "to", "half": "to", "bfloat16": "to", "double": "to", "type": "to", "type_as": "to", "rdiv": "div",
           "truediv": "div", "rtruediv": "div", "radd": "add", "rmul": "mul", "rpow": "pow", "getitem": "index",
           "concat": "cat", "concatenate": "cat", "true_divide": "div", "multiply": "mul", "subtract": "sub",
           "contiguous": "clone"}
BARE = ("empty", "new_", "zeros", "ones", "full")  # what these make gets its content from elsewhere
OVERWRITES = ("bernoulli_", "uniform_", "normal_", "exponential_", "random_", "copy_", "fill_", "zero_")


class PlanError(RuntimeError):
    """The model, or this torch, is not what the plan was made for."""


class Streams:
    """Copies beside the compute stream, and pinned memory for them, used again; without CUDA they are plain copies."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.out, self.back = (torch.cuda.Stream(device), torch.cuda.Stream(device)) if self.cuda else (None, None)
        self.free: dict[int, list[tuple[torch.Tensor, Any]]] = {}
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
        for event in filter(None, after):
            stream.wait_event(event)
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
        return stream.record_event()

    def take(self, count: int) -> tuple[torch.Tensor, Any]:
        if self.free.get(count):
            return self.free[count].pop()
        self.host_bytes += count
        return torch.empty(count, dtype=torch.uint8, pin_memory=self.cuda), None

    def generator(self, state: torch.Tensor | None = None) -> torch.Tensor:
        """State of the random numbers, before it is set to `state`."""
        now = torch.cuda.get_rng_state(self.device) if self.cuda else torch.get_rng_state()
        if state is not None:
            torch.cuda.set_rng_state(state, self.device) if self.cuda else torch.set_rng_state(state)
        return now


class Moved:
    """A storage that waits in host memory. What its copies use is its own until they are done."""

    def __init__(self, run: Plan, storage: torch.UntypedStorage) -> None:
        self.streams, self.count, self.device = run.streams, storage.nbytes(), storage.device
        self.source: torch.UntypedStorage | None = storage
        self.target: torch.UntypedStorage | None = None
        self.host, ready = self.streams.take(self.count)
        self.last = self.streams.copy(self.streams.out, self.host, self.bytes(storage), self.streams.now(), ready)
        self.streams.moved_bytes += self.count
        run.group.moved.append(weakref.ref(self))
        run.stash.append(weakref.ref(self))

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
                self.streams.wait(self.last)  # the allocator hands the memory out again behind the copy
            self.streams.free.setdefault(self.count, []).append((self.host, self.last))


class Group:
    """One run of a block: what has to be back before its backward."""

    def __init__(self, before: Group | None) -> None:
        self.before, self.opened = before, False
        self.moved: list[weakref.ref[Moved]] = []

    def restore(self, ahead: int) -> None:
        for ref in self.moved:
            if (moved := ref()) is not None:
                moved.restore()
        if self.before is not None and ahead > 0:
            self.before.restore(ahead - 1)


class Value:
    """What a storage holds from one write to the next. place: None until the function that made it has returned."""

    def __init__(self, run: Plan, place: str | None, node: Node | None = None, bare: bool = False) -> None:
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
        if self.moved is not None:
            return self.moved.storage()
        if self.held is None and self.node is not None:
            self.node.rerun()
        assert self.held is not None
        return self.held


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

    def __init__(self, run: Plan, func: Any, args: Any, random: torch.Tensor | None) -> None:
        self.run, self.func, self.args, self.random = run, func, args, random
        self.outputs: list[tuple[int, weakref.ref[Value]]] = []         # by number in the result
        self.written: list[tuple[Value, weakref.ref[Value], int]] = []  # before, after, bytes

    def rerun(self) -> None:
        copies = {id(old): torch.UntypedStorage(count, device=self.run.streams.device) if old.bare
                  else old.storage().clone() for old, _, count in self.written}

        def make(a: Any) -> Any:
            if isinstance(a, View):
                return a.tensor(copies[id(a.value)] if id(a.value) in copies else a.value.storage())
            if isinstance(a, dict):
                return {k: make(v) for k, v in a.items()}
            return type(a)(map(make, a)) if type(a) in (list, tuple) else a

        args, kwargs = make(self.args)
        with torch.autocast(self.run.streams.device.type, enabled=False):
            before = self.random if self.random is None else self.run.streams.generator(self.random)
            made = tensors_in(self.func(*args, **kwargs))
            self.run.streams.generator(before) if before is not None else None
        for i, output in self.outputs:
            if (value := output()) is not None:
                value.held = made[i].untyped_storage()
        for old, output, _ in self.written:
            if (value := output()) is not None:
                value.held = copies[id(old)]
        self.args, self.written = None, []


def tensors_in(a: Any) -> list[torch.Tensor]:
    if isinstance(a, torch.Tensor):
        return [a]
    if isinstance(a, dict):
        a = list(a.values())
    return [t for v in a for t in tensors_in(v)] if isinstance(a, (list, tuple)) else []


def nbytes(t: torch.Tensor) -> int:
    return t.untyped_storage().nbytes()


def is_plain(t: torch.Tensor) -> bool:
    return type(t) in (torch.Tensor, nn.Parameter) and t.layout == torch.strided and not (t.is_conj() or t.is_neg())


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


class Plan:
    """The plan at work on a model, whose forwards run one at a time."""

    def __init__(self, model: nn.Module, plan: dict[str, Any], compiled: bool) -> None:
        self.plan, self.busy, self.undo = plan, False, []  # type: dict[str, Any], bool, list[Callable[[], Any]]
        self.blocks = find_blocks(model, plan)
        self.streams = Streams(next(self.blocks[0].parameters()).device)
        self.table: dict[int, tuple[StorageWeakRef, Value | None, weakref.ref[Value]]] = {}
        self.traits: dict[Any, Traits] = {}
        self.stash: list[weakref.ref[Moved]] = []
        self.call: Call | None = None
        self.group, self.region, self.seen, self.index = Group(None), [""], Counter[str](), 0
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
            leave = module.register_forward_hook(lambda *_: self.leave(), always_call=True)
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

    def leave(self) -> None:
        if len(self.region) > 1:
            self.region.pop()

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

    def release(self, limit: int) -> None:
        """Drops sources that are copied; beyond `limit` bytes the compute stream waits for the oldest."""
        held = [m for ref in self.stash if (m := ref()) is not None and m.source is not None]
        count = sum(m.count for m in held)
        for moved in held:
            if count > limit or moved.last is None or moved.last.query():
                moved.drop_source()
                count -= moved.count
        self.stash = [weakref.ref(m) for m in held if m.source is not None]

    # Values, by the storage that they are in

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

    def overwrite(self, t: torch.Tensor) -> Value | None:
        """What is in the tensor's storage now, for those who need it after the write that comes."""
        value = self.find(t)
        if value is not None:
            if value.place is None and value.node is not None:
                value.settle("recompute")
            elif value.moved is not None:
                value.moved.drop_source()
            elif value.held is not None:
                value.held = value.held.clone()
        return value

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs an op, and notes how to run it again where the plan may want that."""
        traits = self.traits.get(func) or self.traits.setdefault(func, Traits(func))
        inputs = tensors_in([args, kwargs])
        if traits.view or not all(map(is_plain, inputs)):
            return func(*args, **kwargs)
        call = self.call or Call(func._schema.name.split("::")[-1])
        known = {t.untyped_storage()._cdata for t in inputs}
        written = tensors_in([args[i] if i < len(args) else kwargs.get(n) for i, n in traits.writes])
        again = traits.again and "recompute" in self.places(call, False)
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
                if is_plain(t) and t.untyped_storage()._cdata not in known and self.find(t) is None]
        if not made and not olds:
            return result
        self.places(call, True)
        node = Node(self, func, view([list(args), kwargs]), random) if again else None
        for i, t in made:
            node.outputs.append((i, weakref.ref(self.make(call, t, node, traits.bare)))) if node else \
                self.make(call, t, None, traits.bare)
        for t in written:
            value = self.make(call, t, node, False)
            if node and (old := olds[t.untyped_storage()._cdata]) is not None:
                node.written.append((old, weakref.ref(value), nbytes(t)))
        if self.call is None:
            self.settle(call, result)
        return result

    def needed(self, t: torch.Tensor) -> Value:
        value = self.find(t) or self.add(t, Value(self, "keep"))
        value.use(t.untyped_storage())
        return value

    def make(self, call: Call, t: torch.Tensor, node: Node | None, bare: bool) -> Value:
        storage = t.untyped_storage()
        value = self.add(t, Value(self, None, node, bare))
        call.values.append((value, storage._cdata, storage.nbytes()))
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
                if place == "recompute" and (value.node is None or private and count < self.plan["saved_min_bytes"]) or \
                        place == "host" and count < self.plan["min_bytes"]:
                    place = "keep"
                value.settle(place)
        self.busy = was

    def pack(self, t: torch.Tensor) -> Saved:
        was, self.busy = self.busy, True
        try:
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

    # Backward

    def unpack(self, saved: Saved) -> torch.Tensor:
        was, self.busy = self.busy, True
        try:
            with torch.no_grad():
                if not saved.group.opened:
                    saved.group.opened = True
                    self.purge()
                    saved.group.restore(self.plan["prefetch_blocks"])
                if saved.tensor is None:
                    assert saved.view is not None
                    return saved.view.tensor(saved.view.value.storage())
                if saved.tensor._version != saved.version:
                    raise RuntimeError("a tensor that backward needs has been changed in place: it is at version "
                                       f"{saved.tensor._version}, expected {saved.version}")
                return saved.tensor
        finally:
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
        there = ", ".join(f"'{name}' has {len(b)} of {type(b[0]).__name__}" for name, b in lists.items()) or "are no lists of them"
        raise PlanError(f"the plan is for {plan['blocks']} blocks in '{plan['path']}'; in this model {there}")
    blocks = fitting[named[0]]
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
    count = sum(p.numel() for n, p in model.named_parameters() if "lora_" not in n and p.is_floating_point())
    quantized = any(not p.is_floating_point() for p in model.parameters())
    if check and PLAN["parameters"] and count != PLAN["parameters"] and not quantized:
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
