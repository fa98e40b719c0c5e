"""The tensors that the compiler saves under a budget. Export puts this into memtune_plan.py, from the mark on."""
from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from memtune_values import nbytes, storage_of

# --- the compiler -----------------------------------------------------------------------------------------------------


class Partition(NamedTuple):
    """A block's graph under a budget: sizes of what it saves for backward without parameters, sizes of saved inputs
    that all blocks share (masks), and the share of its FLOPs that backward recomputes."""
    own: list[int]
    shared: list[int]
    again: float


def partitions(graphs: dict[float, Any], inputs: Any, outputs: int) -> dict[float, Partition]:
    """The partition under each budget. Of budgets with equal partitions only the largest is kept. The first one
    recomputes nothing."""
    found: dict[float, Partition] = {}
    whole = backward_flops = 0
    for budget, (forward, backward) in graphs.items():
        sizes: tuple[dict[int, int], dict[int, int]] = {}, {}
        saved = forward.graph.find_nodes(op="output")[0].args[0][outputs:]
        if any(isinstance(node.meta.get("val"), (list, tuple)) for node in saved):
            continue  # the compiler cannot generate code for it
        for node in saved:
            number = int(node.name.split("_")[1]) - 1 if node.op == "placeholder" else len(inputs)
            t, given = node.meta.get("val"), inputs[number] if number < len(inputs) else None
            if isinstance(t, Tensor) and not isinstance(given, nn.Parameter):
                sizes[given is not None and not given.requires_grad][storage_of(t)] = known(nbytes(t))
        count = known(flops(backward.graph))
        if not found:
            whole, backward_flops = max(known(flops(forward.graph)) + count, 1), count
        one = Partition([*sizes[0].values()], [*sizes[1].values()], (count - backward_flops) / whole)
        if one not in found.values():
            found[budget] = one
    return found


def draws(node: Any) -> bool:
    """Whether a node draws random numbers; attention does only with dropout. The compiler's partitioner knows only some
    of these functions, and not the seeds that it creates for them."""
    given = [*node.args, node.kwargs.get("dropout_p")]
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and (
        "attention" not in str(node.target) or any(isinstance(a, float) and a > 0 for a in given))


def known(count: Any) -> int:
    """The current value of a symbolic size. A comparison of the symbol would add a guard to the graph."""
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
