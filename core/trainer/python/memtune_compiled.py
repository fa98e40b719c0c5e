"""How Plan compiles blocks, and what then moves. Export writes this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from torch import Tensor, nn
import torch

import memtune_plan
from memtune_partitions import partitions
from memtune_values import Value, View, is_plain, nbytes, storage_of


class Plan(memtune_plan.Plan):
    # --- compiled blocks ---

    def compile(self, graph: Any, inputs: Any) -> Any:
        """A backend: inductor under the budget that costs least of a step, made again and waited for; of such the
        largest."""
        import torch._functorch.config as functorch
        from torch._inductor.compile_fx import compile_fx
        trains = torch.is_grad_enabled() and any(isinstance(i, Tensor) and i.requires_grad for i in inputs)
        found, costs = partitions(graph, inputs) if trains else {}, {}
        for budget, (own, shared, again) in found.items():
            own, shared = [*self.compiled[0], *own], [*self.compiled[1], *shared]
            every = {(block, number): size for block in range(len(self.blocks)) for number, size in enumerate(own)}
            every |= {(0, len(own) + number): size for number, size in enumerate(shared)}
            waited = self.choose(every)[1]
            costs[budget] = again + (waited and waited / max(self.plan["compile"]["hidden_bytes"], 1) / 3)
        best = min(costs, key=lambda b: (costs[b], -b), default=1.0)
        for sizes, more in zip(self.compiled, found.get(best, ())):
            sizes += more
        with functorch.patch(activation_memory_budget=best):
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

    def choose_place(self, t: Tensor) -> None:
        if self.find(t) is None and storage_of(t) not in self.fixed:  # and no stand-in of the compiler
            key = self.index, sum(index == self.index for index, _ in self.sizes)
            self.sizes[key] = nbytes(t)
            moves = (self.moves is None or key in self.moves) and nbytes(t) >= max(self.plan["min_bytes"], 1)
            Value(self, "host" if moves else "keep", t)
