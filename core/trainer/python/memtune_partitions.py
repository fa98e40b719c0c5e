"""What the compiler would save. Export writes this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from memtune_values import nbytes, storage_of

# --- the compiler -----------------------------------------------------------------------------------------------------


class Partitioned(Exception):
    """The compiler has told what it was asked for, before it has compiled anything."""


class Partition(NamedTuple):
    """Of a block's graph under a budget: bytes of what it saves for backward, parameters apart, of what all blocks
    share of that, as masks, and the part of its floating-point operations that backward repeats."""
    own: list[int]
    shared: list[int]
    again: float


def partitions(graph: Any, inputs: Any) -> dict[float, Partition]:
    """The compiler's own, by the largest budget that has it."""
    from unittest import mock

    import torch._functorch.config as functorch
    from torch._inductor import compile_fx
    found: dict[float, Partition] = {}

    def source(node: Any) -> Any:
        number = int(node.name.split("_")[1]) - 1 if node.op == "placeholder" else len(inputs)
        return inputs[number] if number < len(inputs) else None

    def partition(*args: Any, **options: Any) -> Any:
        whole = backward_flops = 0
        for tenths in range(10, 0, -1):
            with functorch.patch(activation_memory_budget=tenths / 10):
                forward, backward = original(*args, **options)
            saved = forward.graph.find_nodes(op="output")[0].args[0][options["num_fwd_outputs"]:]
            sizes: tuple[dict[int, int], dict[int, int]] = {}, {}
            for node in saved:
                t, given = node.meta.get("val"), source(node)
                if isinstance(t, Tensor) and not isinstance(given, nn.Parameter):
                    sizes[given is not None and not given.requires_grad][storage_of(t)] = known(nbytes(t))
            count = known(flops(backward.graph))
            if not found:
                whole, backward_flops = max(known(flops(forward.graph)) + count, 1), count
            one = Partition(*(list(s.values()) for s in sizes), (count - backward_flops) / whole)
            if one not in found.values():
                found[tenths / 10] = one
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
