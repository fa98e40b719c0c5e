"""The plan under torch.compile. Export writes this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, Callable

import torch
from torch import nn

from memtune_plan import Plan
from memtune_values import Value, is_plain, nbytes, storage_of

# --- under torch.compile ----------------------------------------------------------------------------------------------


class Compiled(Plan):
    """Compiled blocks under the plan's memory: the compiler says what a block saves, by the budget that it is given
    here, and of that values move, until what is left is no more than the plan leaves."""

    runs = "_compiled_call_impl"

    def __init__(self, model: nn.Module, plan: dict[str, Any]) -> None:
        self.sizes: dict[tuple[int, int], int] = {}  # of what a forward saves, by block and number
        self.moves: set[tuple[int, int]] | None = None  # of these; None: all
        super().__init__(model, plan)
        self.mode, self.missing = contextlib.nullcontext(), set()

    def apart(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        return forward

    def prepare(self, block: nn.Module) -> None:
        block.compile(backend=self.compile)

    def compile(self, graph: Any, inputs: Any) -> Any:
        """A backend: inductor under the budget that costs least of a step, made again and waited for; the largest such."""
        import torch._functorch.config as functorch
        from torch._inductor.compile_fx import compile_fx
        costs = {}
        trains = torch.is_grad_enabled() and any(isinstance(i, torch.Tensor) and i.requires_grad for i in inputs)
        for budget, (sizes, again) in (partitions(graph, inputs) if trains else {}).items():
            every = {(block, number): size for block in range(len(self.blocks)) for number, size in enumerate(sizes)}
            waited = self.choose(every)[1]
            costs[budget] = again + (waited and waited / max(self.plan["compile"]["hidden_bytes"], 1) / 3)
        with functorch.patch(activation_memory_budget=min(costs, key=lambda b: (costs[b], -b), default=1.0)):
            return compile_fx(graph, inputs)

    def choose(self, sizes: dict[tuple[int, int], int]) -> tuple[set[tuple[int, int]], float]:
        """What moves, and bytes that are waited for: copies that the forward does not hide. From the first block on, so
        that copies have ended with the last one; of each the narrow values first: wide ones hold others up."""
        last, over = len(self.blocks) - 1, sum(sizes.values()) - self.plan["compile"]["left_bytes"]
        room, moved, moves = self.plan["compile"]["hidden_bytes"] / len(self.blocks), Counter(), set()

        def waited() -> float:
            behind = total = 0.0
            for block in range(last):
                behind = max(0.0, behind + moved[block] - room)
                late = max(0.0, behind - self.plan["stash_bytes"])
                behind, total = behind - late, total + late
            return total + max(0.0, behind - room) + moved[last]

        order = sorted((key for key in sizes if sizes[key] >= max(self.plan["min_bytes"], 1)),
                       key=lambda key: (key[0] == last, sizes[key] > room / 2, key[0], sizes[key], key))
        allowed = 0.0
        while over > 0 and len(moves) < len(order):
            for key in order:
                if over > 0 and key not in moves:
                    moved[key[0]] += sizes[key]
                    if waited() > allowed:
                        moved[key[0]] -= sizes[key]
                        continue
                    moves.add(key)
                    over -= sizes[key]
            allowed = max(2 * allowed, room / 4, 1.0)
        return moves, waited() + max(over, 0)

    def begin(self, index: int, hidden: torch.Tensor | None) -> None:
        super().begin(index, None)
        block = self.blocks[index]
        self.fixed = {storage_of(t) for t in [*block.parameters(), *block.buffers()] if is_plain(t)}
        if index > 0 or not self.sizes:
            return
        self.moves = self.choose(self.sizes)[0]
        self.sizes = {}

    def pack(self, t: torch.Tensor) -> Any:
        if is_plain(t) and self.find(t) is None and storage_of(t) not in self.fixed:  # and no stand-in of the compiler
            key = self.index, sum(index == self.index for index, _ in self.sizes)
            self.sizes[key] = nbytes(t)
            moves = (self.moves is None or key in self.moves) and nbytes(t) >= max(self.plan["min_bytes"], 1)
            Value(self, "host" if moves else "keep", t)
        return super().pack(t)


class Partitioned(Exception):
    """The compiler has told what it was asked for, before it has compiled anything."""


def partitions(graph: Any, inputs: Any) -> dict[float, tuple[list[int], float]]:
    """By budget: bytes of what a graph saves for backward, parameters apart, and the share of its floating-point
    operations that backward repeats. As the compiler's own partition has it."""
    from unittest import mock

    import torch._functorch.config as functorch
    from torch._inductor import compile_fx
    found: dict[float, tuple[list[int], float]] = {}

    def is_tensor(node: Any) -> bool:
        number = int(node.name.split("_")[1]) - 1 if node.op == "placeholder" else len(inputs)
        parameter = number < len(inputs) and isinstance(inputs[number], nn.Parameter)
        return isinstance(node.meta.get("val"), torch.Tensor) and not parameter

    def partition(*args: Any, **options: Any) -> Any:
        whole = backward_flops = 0
        for tenths in range(10, 0, -1):
            with functorch.patch(activation_memory_budget=tenths / 10):
                forward, backward = original(*args, **options)
            saved = forward.graph.find_nodes(op="output")[0].args[0][options["num_fwd_outputs"]:]
            storages = {storage_of(n.meta["val"]): known(nbytes(n.meta["val"])) for n in saved if is_tensor(n)}
            count = known(flops(backward.graph))
            if not found:
                whole, backward_flops = max(known(flops(forward.graph)) + count, 1), count
            found[tenths / 10] = list(storages.values()), (count - backward_flops) / whole
        raise Partitioned

    original = compile_fx.min_cut_rematerialization_partition
    with contextlib.suppress(Partitioned), functorch.patch(enable_autograd_cache=False), \
            mock.patch.object(compile_fx, "min_cut_rematerialization_partition", partition):
        compile_fx.compile_fx(graph, inputs)
    return found


def known(count: Any) -> int:
    """Of a symbol the number that it stands for now: a comparison of it would guard the graph."""
    return count if isinstance(count, int) else count.node.hint or 0


def flops(graph: Any) -> Any:
    from torch.utils.flop_counter import flop_registry
    count = 0
    for node in graph.nodes:
        formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
        if formula is not None:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            count += formula(*args, **kwargs, out_val=node.meta["val"])
    return count
