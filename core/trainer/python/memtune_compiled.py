"""The plan under torch.compile. Export writes this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import contextlib
from typing import Any, Callable

import torch
from torch import nn

from memtune_plan import Plan
from memtune_values import Value, is_plain, nbytes, storage_of

# --- under torch.compile ----------------------------------------------------------------------------------------------


class Compiled(Plan):
    """Compiled blocks under the plan's memory: the compiler says what a block saves, by the budget that it is given
    here, and of that the smallest values move, until what is left is no more than the plan leaves."""

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
        """A backend: inductor under the largest budget with which what must not stay moves while the forward runs."""
        import torch._functorch.config as functorch
        from torch._inductor.compile_fx import compile_fx
        saved = saved_bytes(graph, inputs) if torch.is_grad_enabled() else {1.0: 0}
        limit = sum(self.plan["compile"].values()) / len(self.blocks)
        budget = max((b for b in saved if saved[b] <= limit), default=min(saved))
        with functorch.patch(activation_memory_budget=budget):
            return compile_fx(graph, inputs)

    def begin(self, index: int, hidden: torch.Tensor | None) -> None:
        super().begin(index, None)
        block = self.blocks[index]
        self.fixed = {storage_of(t) for t in [*block.parameters(), *block.buffers()] if is_plain(t)}
        if index > 0 or not self.sizes:
            return
        last, over = len(self.blocks) - 1, sum(self.sizes.values()) - self.plan["compile"]["left_bytes"]
        self.moves = set()
        for key in sorted(self.sizes, key=lambda k: (k[0] == last, self.sizes[k], k)):  # of the last block at last
            if over > 0 and self.sizes[key] >= max(self.plan["min_bytes"], 1):
                self.moves.add(key)
                over -= self.sizes[key]
        self.sizes = {}

    def pack(self, t: torch.Tensor) -> Any:
        if is_plain(t) and self.find(t) is None and storage_of(t) not in self.fixed:  # and no stand-in of the compiler
            key = self.index, sum(index == self.index for index, _ in self.sizes)
            self.sizes[key] = nbytes(t)
            moves = (self.moves is None or key in self.moves) and nbytes(t) >= max(self.plan["min_bytes"], 1)
            Value(self, "host" if moves else "keep", t)
        return super().pack(t)


def saved_bytes(graph: Any, inputs: Any) -> dict[float, int]:
    """What a graph saves for backward, parameters apart, by budget: the compiler's own partition, compiling nothing."""
    import torch._functorch.config as functorch
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table
    found: dict[float, int] = {}

    def is_tensor(node: Any) -> bool:
        parameter = node.op == "placeholder" and isinstance(inputs[int(node.name.split("_")[1]) - 1], nn.Parameter)
        return isinstance(node.meta.get("val"), torch.Tensor) and not parameter

    def partition(joint: Any, args: Any, **options: Any) -> Any:
        for tenths in range(10, 0, -1):
            with functorch.patch(activation_memory_budget=tenths / 10):
                parts = min_cut_rematerialization_partition(joint, args, compiler="inductor", **options)
            saved = parts[0].graph.find_nodes(op="output")[0].args[0][options["num_fwd_outputs"]:]
            found[tenths / 10] = sum(nbytes(n.meta["val"]) for n in saved if is_tensor(n))
        return parts

    aot_module_simplified(graph, inputs, fw_compiler=lambda g, _: make_boxed_func(g.forward), partition_fn=partition,
                          bw_compiler=lambda g, _: make_boxed_func(g.forward), decompositions=select_decomp_table())
    return found
