"""One operator of PyTorch's op_db on one of its samples, as a model of three chained blocks.

The output of a block slightly changes the operator's inputs in the next block, so gradients pass through all of them.
Modes: in `value` the operator reads activations, in `parameter` the parameters themselves. In `inplace` and
`inplace_view` its in-place form writes into an activation, or a part of one, that is read before and after.
"""

import math
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

BLOCKS = 3
NARROW = (torch.bfloat16, torch.float16)


class NotMade(Exception):
    """The reason why there is no such case."""


def is_real_or_complex(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class Block(nn.Module):
    def __init__(self, operator, sample, mode: str, differentiable: bool, seed: int):
        super().__init__()
        self.operator, self.mode, self.differentiable, self.seed = operator, mode, differentiable, seed
        self.scale = nn.Parameter(torch.ones(()))
        self.weights: Optional[List[str]] = None
        leaves, self.form = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.leaves = [self.keep(leaf, f"t{i}") for i, leaf in enumerate(leaves)]

    def keep(self, leaf, name: str):
        """Stores a leaf and returns (kind, name or value)."""
        if not isinstance(leaf, Tensor):
            return "constant", leaf
        if leaf.layout != torch.strided:
            raise NotMade("takes sparse tensors")
        value = leaf.detach().resolve_conj().resolve_neg().clone()
        if is_real_or_complex(value) and (leaf.requires_grad or not self.differentiable):
            self.register_parameter(name, nn.Parameter(value))
            return "parameter", name
        self.register_buffer(name, value)
        return "buffer", name

    def operand(self, where: str, what, one: Tensor):
        if where == "constant":
            return what
        tensor = getattr(self, what)
        if where == "buffer" or self.mode == "parameter":
            return tensor
        tensor = tensor * one.to(tensor.dtype) if tensor.dtype in NARROW else tensor * one
        return tensor if self.differentiable else tensor.detach()

    def results(self, one: Tensor):
        first, args, kwargs = pytree.tree_unflatten([self.operand(*leaf, one) for leaf in self.leaves], self.form)
        if self.mode in ("value", "parameter"):
            return self.operator(first, *args, **kwargs)
        if not isinstance(first, Tensor):
            raise NotMade("its first argument is no tensor")
        if self.mode == "inplace":
            before = first + 1
            return [self.operator(first, *args, **kwargs), before, first * 1.5]
        whole = torch.stack([first, first])
        before = whole + 1
        self.operator(whole[0], *args, **kwargs)
        return [whole, before, whole[0] * 1.5]

    def forward(self, before: Tensor) -> Tensor:
        one = self.scale * (1 + torch.tanh(before) / 1024)
        made = [t for t in pytree.tree_leaves(self.results(one)) if isinstance(t, Tensor)]
        if not made:
            raise NotMade("makes no tensor")
        made = [t if t.layout == torch.strided else t.to_dense() for t in made]
        made = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in made]
        if self.weights is None:
            self.draw_weights(made)
        loss = before * 0
        for tensor, name in zip(made, self.weights):
            term = (torch.atan(tensor.float()) * getattr(self, name)).sum()
            loss = loss + (term if tensor.requires_grad else term * one)
        return loss

    def draw_weights(self, made: List[Tensor]):
        """Draws the weights of the loss once, because a trace must contain them."""
        generator = torch.Generator().manual_seed(self.seed)
        self.weights = [f"w{i}" for i in range(len(made))]
        for name, tensor in zip(self.weights, made):
            self.register_buffer(name, torch.randn(tensor.shape, generator=generator))


class Chain(nn.Module):
    def __init__(self, blocks: List[Block]):
        super().__init__()
        self.layers = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        passed = x.mean()
        total = passed * 0
        for block in self.layers:
            passed = block(passed)
            total = total + passed
        return total


def chain(operator, sample, mode: str, differentiable: bool) -> Chain:
    """A model ready for tracing: a first run has drawn the weights, and its other changes are undone."""
    blocks = [Block(operator, sample, mode, differentiable, seed) for seed in range(BLOCKS)]
    for block in blocks:
        with Untouched(block):
            block(torch.ones(()))
    return Chain(blocks)


class Untouched:
    """Restores parameters and buffers at the end. Every run draws the same random numbers."""

    def __init__(self, module: nn.Module):
        self.tensors = [(t, t.detach().clone()) for t in [*module.parameters(), *module.buffers()]]

    def __enter__(self):
        torch.manual_seed(0)
        return self

    def __exit__(self, *_):
        with torch.no_grad():
            for tensor, value in self.tensors:
                tensor.copy_(value)


def train(model: Chain, autocast: bool) -> Tuple[Tensor, Dict[str, Tensor]]:
    """Loss and gradients of a step, without parameters that have no gradient."""
    for parameter in model.parameters():
        parameter.grad = None
    with Untouched(model):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(torch.ones(4))
        loss.backward()
    gradients = {n: p.grad.detach() for n, p in model.named_parameters() if p.grad is not None}
    gradients = {n: (g if g.layout == torch.strided else g.to_dense()).resolve_conj().resolve_neg().clone()
                 for n, g in gradients.items()}
    return loss.detach(), gradients


def answer(model: Chain, autocast: bool) -> Tuple[Tensor, Dict[str, Tensor]]:
    """Loss and gradients in eager Python. Raises NotMade if they are not finite."""
    loss, gradients = train(model, autocast)
    if not math.isfinite(loss) or not all(torch.isfinite(g).all() for g in gradients.values()):
        raise NotMade("loss or gradients are not finite")
    return loss, gradients


def trace(model: Chain):
    with Untouched(model):
        return torch.jit.trace(model, (torch.ones(4),), check_trace=False)
