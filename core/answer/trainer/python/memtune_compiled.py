"""How Plan compiles blocks and chooses what to offload. Export puts this into memtune_plan.py, from the mark on."""
from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor, nn

import memtune_plan
from memtune_partitions import Partition, draws, partitions
from memtune_values import Value, is_plain, nbytes, storage_of


class Plan(memtune_plan.Plan):
    # --- compiled blocks ---

    def compile(self, second: bool, graph: Any, inputs: Any) -> Any:
        """The backend of torch.compile: inductor under one of the two activation memory budgets of the graph."""
        from unittest import mock

        import torch._functorch.config as functorch
        from torch._inductor import compile_fx
        from torch.utils.checkpoint import CheckpointPolicy

        def partition(*args: Any, **options: Any) -> Any:
            def under(budget: float) -> Any:
                with functorch.patch(activation_memory_budget=budget):
                    return original(*args, **options)

            if self.index > 0 and not second and not self.known:
                self.second = None  # the first block may differ: its input may need no gradient
            for node in filter(draws, args[0].graph.nodes):
                node.meta["recompute"] = CheckpointPolicy.MUST_SAVE  # recomputed it would draw other numbers
            if not second or graph.code not in self.budgets:
                graphs = {tenths / 10: under(tenths / 10) for tenths in range(10, 0, -1)}
                self.budgets[graph.code] = self.choose_budgets(partitions(graphs, inputs, options["num_fwd_outputs"]))
            return under(self.budgets[graph.code][second])

        original = compile_fx.min_cut_rematerialization_partition
        with functorch.patch(enable_autograd_cache=False), \
                mock.patch.object(compile_fx, "min_cut_rematerialization_partition", partition):
            return compile_fx.compile_fx(graph, inputs)

    def kinds(self, seconds: int) -> list[bool]:
        """Which blocks get the second budget: `seconds` blocks, evenly spread, never the first block."""
        count = len(self.blocks)
        return [block * seconds // count != (block + 1) * seconds // count for block in range(count)]

    def choose_budgets(self, found: dict[float, Partition]) -> tuple[float, float]:
        """The two budgets with the least recomputation and exposed copy time. The first call also chooses how many
        blocks get the second. Per byte, the least budget is cheaper than a slightly smaller one: few blocks get it."""
        count, hidden, ways = len(self.blocks), max(self.plan["compile"]["hidden_bytes"], 1), []
        for pair in combinations_with_replacement(found, 2):
            for seconds in range(count if pair[0] != pair[1] else 1) if self.second is None else [len(self.second)]:
                many, graphs = (count - seconds, seconds), [*self.graphs, [found[budget] for budget in pair]]
                saved = sum(many[0] * sum(a.own) + many[1] * sum(b.own) + sum(a.shared) for a, b in graphs)
                again = sum(number * found[budget].again for number, budget in zip(many, pair)) / count
                least = max(0, saved - self.plan["compile"]["left_bytes"] - hidden) / hidden / 3
                ways.append((again + least, seconds, [-budget for budget in pair], again, graphs))
        cost = float("inf")
        for bound, seconds, budgets, again, graphs in sorted(ways):
            if bound < cost:
                kinds = self.kinds(seconds)
                sizes = {(block, number): size for block, second in enumerate(kinds) for number, size in
                         enumerate(size for graph in graphs for size in graph[second].own)}
                sizes |= {(0, -1 - number): size for number, size in
                          enumerate(size for graph in graphs for size in graph[0].shared)}
                if (now := again + self.choose(sizes)[1] / hidden / 3) < cost:
                    best, cost = (budgets, kinds, graphs), now
        budgets, kinds, self.graphs = best
        if self.second is None:
            self.second = {block: torch.compile(self.blocks[block]._call_impl, backend=self.backends[1])
                           for block, second in enumerate(kinds) if second}
        return -budgets[0], -budgets[1]

    def choose(self, sizes: dict[tuple[int, int], int]) -> tuple[set[tuple[int, int]], float]:
        """Returns the keys to offload, and the bytes of exposed copies. Takes equal amounts from all blocks, from the
        last block only at the end. Small tensors come first within a block, because large ones delay the others."""
        last, over = len(self.blocks) - 1, sum(sizes.values()) - self.plan["compile"]["left_bytes"]
        room, moved = self.plan["compile"]["hidden_bytes"] / len(self.blocks), Counter[int]()
        before, sums, moves = dict[tuple[int, int], int](), Counter[int](), set[tuple[int, int]]()
        for key in sorted(sizes, key=lambda key: (sizes[key], key)):
            before[key] = sums[key[0]]
            sums[key[0]] += sizes[key]

        def waited() -> float:
            behind = total = 0.0
            for block in range(last):
                behind = max(0.0, behind + moved[block] - room)
                late = max(0.0, behind - self.plan["stash_bytes"])
                behind, total = behind - late, total + late
            return total + behind + moved[last]

        order = sorted((key for key in sizes if sizes[key] >= max(self.plan["min_bytes"], 1)),
                       key=lambda key: (key[0] == last, sizes[key] > room / 2, before[key], key))
        allowed = 0.0
        while over > 0 and len(moves) < len(order):
            for key in order:
                if over > 0 and key not in moves:
                    moved[key[0]] += sizes[key]
                    if waited() > allowed:
                        moved[key[0]] -= sizes[key]
                    else:
                        moves.add(key)
                        over -= sizes[key]
            allowed = max(2 * allowed, room / 4, 1.0)
        return moves, waited() + max(over, 0)

    def placed(self, t: Tensor) -> Value:
        """A new Value. Parameters and buffers are kept; `moves` decides about the others."""
        moves = False
        if not self.fixed:  # only now: FSDP2 gathers when the block runs
            block = self.blocks[self.index]
            self.fixed = {storage_of(p) for p in [*block.parameters(), *block.buffers()] if is_plain(p)}
        if not isinstance(t, nn.Parameter) and storage_of(t) not in self.fixed:
            key = self.index, sum(index == self.index for index, _ in self.sizes)
            self.sizes[key] = nbytes(t)
            moves = (self.moves is None or key in self.moves) and nbytes(t) >= max(self.plan["min_bytes"], 1)
        return Value(self, "host" if moves else "keep", t)
