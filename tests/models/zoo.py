"""The list of test models. Each is a function that builds a module and its inputs.

    @model("moe", loss="next_token", tags=("experts",))
    def _():
        return MixtureOfExperts(), {"tokens": tokens(2, 24)}

Inputs are named as forward's arguments. `target` or `labels` is only for the loss, unless forward takes it too.
"""

from dataclasses import dataclass
from typing import Callable, Dict, List, Tuple

import torch
from torch import Tensor, nn

VOCABULARY = 128


@dataclass(frozen=True)
class Model:
    """A model that make_models.py exports, with one file for each of `kinds`."""

    name: str
    loss: str  # next_token | cross_entropy | mse | returned
    kinds: Tuple[str, ...]  # script, trace
    deterministic: bool  # False: the loss depends on random numbers
    tags: Tuple[str, ...]
    build: Callable[[], Tuple[nn.Module, Dict[str, Tensor]]]


MODELS: List[Model] = []


def register(name: str, loss: str, build, kinds=("script",), deterministic: bool = True, tags=()):
    MODELS.append(Model(name, loss, tuple(kinds), deterministic, tuple(tags), build))


def model(name: str, loss: str, **more):
    def add(build):
        register(name, loss, build, **more)
        return build
    return add


def tokens(batch: int, length: int, below: int = VOCABULARY) -> Tensor:
    return torch.randint(0, below, (batch, length))


def images(batch: int, side: int, classes: int = 10) -> Dict[str, Tensor]:
    return {"x": torch.randn(batch, 3, side, side), "target": torch.randint(0, classes, (batch,))}
