"""The project's own models: one for each TorchScript construct in users' models, and the benchmark's models.

Each has repeated blocks unless it is tagged no-blocks, so that checkpointing recomputes the construct.
"""

import os
import sys
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import VOCABULARY, images, model, tokens

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from model import GPT, ConvNet, Llama  # noqa: E402  (the models of the benchmark)

WIDTH = 32


class Stack(nn.Module):
    """features [b, t, WIDTH] -> blocks -> [b, t, WIDTH]. The base of the models below."""

    def __init__(self, block, count: int = 3):
        super().__init__()
        self.layers = nn.ModuleList([block() for _ in range(count)])
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, features: Tensor) -> Tensor:
        x = features
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


def regression(block):
    return Stack(block), {"features": torch.randn(4, 12, WIDTH), "target": torch.randn(4, 12, WIDTH)}


class Branches(nn.Module):
    """Conditions and loops that depend on the data."""

    def __init__(self):
        super().__init__()
        self.positive = nn.Linear(WIDTH, WIDTH)
        self.negative = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            y = torch.tanh(self.positive(x))
        else:
            y = torch.sigmoid(self.negative(x))
        for i in range(x.size(1) % 5 + 1):
            if i == 1:
                continue
            y = y + x * (0.1 * i)
        rounds = 0
        while bool(y.abs().max() > 1.5) and rounds < 4:
            y = y * 0.5
            rounds += 1
        return y


class Lists(nn.Module):
    """A list that grows in a loop, stack and cat of it, chunk, split, unbind, comprehension, sorted sizes."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(2 * WIDTH, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        states: List[Tensor] = []
        for step in x.unbind(1):
            state = torch.tanh(self.cell(torch.cat([step, state], -1)))
            states.append(state)
        y = torch.stack(states, 1)
        a, b = y.chunk(2, -1)
        parts = [part * float(i + 1) for i, part in enumerate(torch.split(self.mix(x), 12, dim=-1))]
        parts[0] = parts[0] + 1.0
        return torch.cat([b, a], -1) + torch.cat(parts, -1)


class Gates(nn.Module):
    """Returns a tuple and takes an optional argument."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor, bias: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        gate, value = self.linear(x).chunk(2, -1)
        if bias is not None:
            value = value + bias
        return torch.sigmoid(gate), value


class Heads(nn.Module):
    """Returns a dict and calls its own method."""

    def __init__(self):
        super().__init__()
        self.gates = Gates()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def centred(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) * self.scale

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        gate, value = self.gates(self.centred(x))
        again = self.gates(value, gate)
        return {"gate": gate, "value": again[0] * again[1]}


class Containers(nn.Module):
    """Tuples and dicts between modules, unpacked; one module called twice; nested calls."""

    def __init__(self):
        super().__init__()
        self.heads = Heads()

    def forward(self, x: Tensor) -> Tensor:
        heads = self.heads(x)
        total = torch.zeros_like(x)
        for name, value in heads.items():
            if name != "gate":
                total = total + value
        return x + heads["gate"] * total if "gate" in heads else total


class InPlace(nn.Module):
    """Writes into slices and views, augmented assignments, in-place activations, masked fill."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        y[:, 0] = x[:, 1] * 2.0
        y[:, 2:4, : y.size(2) // 2] += 1.0
        view = y.view(y.size(0), -1)
        view[:, -1].zero_()
        y.mul_(0.5).add_(x)
        y += x
        z = self.relu(y) * 1.0
        z.masked_fill_(z > 3.0, 3.0)
        out = torch.empty_like(z)
        out.copy_(z)
        out[:, ::2].neg_()
        return out


class Counter(nn.Module):
    """Forward writes attributes: a buffer in place, an int, a running mean. None of them affects the output."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.calls = 0
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.count: Tensor
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.linear(x))
        if self.training:
            self.calls = self.calls + 1
            self.count += 1
            self.mean = self.mean * 0.9 + y.detach().mean((0, 1)) * 0.1
        return x + y


class Autocast(nn.Module):
    """An autocast region inside the script, which ends before the norm."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.down(F.gelu(self.up(x)))
        return self.norm(x + y.float())


class Everything(nn.Module):
    """All of the above in one block, with dropout and no_grad."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Branches(), Lists(), Containers(), InPlace(), Counter()])
        self.autocast = Autocast()
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = F.layer_norm(x + self.drop(part(x)), [x.size(-1)])
        with torch.no_grad():
            scale = x.abs().max()
        return self.autocast(x / scale)


@model("branches", loss="mse")
def _():
    return regression(Branches)


@model("lists", loss="mse")
def _():
    return regression(Lists)


@model("containers", loss="mse")
def _():
    return regression(Containers)


@model("in_place", loss="mse", kinds=("script", "trace"))
def _():
    return regression(InPlace)


@model("counter", loss="mse")
def _():
    return regression(Counter)


@model("autocast", loss="mse", tags=("cpu-autocast",))
def _():
    return regression(Autocast)


@model("everything", loss="mse", deterministic=False, tags=("dropout", "cpu-autocast"))
def _():
    return regression(Everything)


class Expert(nn.Module):
    def __init__(self, d: int):
        super().__init__()
        self.up = nn.Linear(d, 2 * d, bias=False)
        self.down = nn.Linear(2 * d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.up(x)))


class RoutedBlock(nn.Module):
    """Each token goes to its two best experts. An expert without tokens does not run and has no gradient."""

    def __init__(self, d: int, experts: int):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.router = nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList([Expert(d) for _ in range(experts)])

    def forward(self, x: Tensor) -> Tensor:
        flat = self.norm(x).flatten(0, 1)
        weights, chosen = torch.softmax(self.router(flat), -1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == i)
            if rows.numel() > 0:
                out.index_add_(0, rows, expert(flat[rows]) * weights[rows, slots].unsqueeze(-1))
        return x + out.view_as(x)


class MixtureOfExperts(nn.Module):
    def __init__(self, d: int = WIDTH, experts: int = 6, blocks: int = 3):
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, d)
        self.layers = nn.ModuleList([RoutedBlock(d, experts) for _ in range(blocks)])
        self.output = nn.Linear(d, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


@model("moe", loss="next_token", tags=("experts",))
def _():
    return MixtureOfExperts(), {"tokens": tokens(2, 24)}


class LSTM(nn.Module):
    def __init__(self, d: int = WIDTH):
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, d)
        self.lstm = nn.LSTM(d, d, num_layers=2, batch_first=True)
        self.output = nn.Linear(d, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x, _ = self.lstm(self.emb(tokens))
        return self.output(x)


@model("lstm", loss="next_token", kinds=("script", "trace"), tags=("no-blocks",))
def _():
    return LSTM(), {"tokens": tokens(2, 16)}


class ReturnsLoss(nn.Module):
    """Returns its loss. `labels` is an argument of forward; -100 is ignored."""

    def __init__(self):
        super().__init__()
        self.model = Llama(vocab=VOCABULARY, d=WIDTH, n=3, h=4, kv=2, f=64, t=32)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        logits = self.model(tokens)[:, :-1].flatten(0, 1)
        return F.cross_entropy(logits.float(), labels[:, 1:].flatten(), ignore_index=-100)


@model("returns_loss", loss="returned")
def _():
    inputs = tokens(2, 24)
    return ReturnsLoss(), {"tokens": inputs, "labels": inputs.masked_fill(torch.rand(2, 24) < 0.2, -100)}


@model("llama", loss="next_token", kinds=("script", "trace"))
def _():
    return Llama(vocab=VOCABULARY, d=64, n=4, h=4, kv=2, f=192, t=64), {"tok": tokens(2, 32)}


@model("llama_labels", loss="next_token")
def _():
    return Llama(vocab=VOCABULARY, d=WIDTH, n=3, h=4, kv=2, f=64, t=64), {"tok": tokens(2, 32),
                                                                         "labels": tokens(2, 32)}


@model("gpt_tied", loss="next_token", kinds=("script", "trace"), deterministic=False, tags=("dropout", "tied"))
def _():
    return GPT(vocab=VOCABULARY, d=64, n=4, h=4, t=64), {"tok": tokens(2, 32)}


@model("gpt_tied_plain", loss="next_token", tags=("tied",))
def _():
    return GPT(vocab=VOCABULARY, d=64, n=3, h=4, t=64, p=0.0), {"tok": tokens(2, 32)}


@model("convnet", loss="cross_entropy", kinds=("script", "trace"), tags=("batch-norm",))
def _():
    return ConvNet(c=16, n=4, classes=10), images(4, 16)


class ChannelsLast(nn.Module):
    """Weights and activations in channels_last. `output` gets a strided view."""

    def __init__(self):
        super().__init__()
        self.net = ConvNet(c=8, n=3, classes=10)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.contiguous(memory_format=torch.channels_last))


@model("channels_last", loss="cross_entropy", tags=("batch-norm",))
def _():
    return ChannelsLast().to(memory_format=torch.channels_last), images(4, 16)


class PartlyFrozen(nn.Module):
    """A frozen embedding and a frozen weight in each block. The input `mask` needs no gradient."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Gates() for _ in range(3)])
        self.output = nn.Linear(WIDTH, VOCABULARY)
        self.emb.weight.requires_grad_(False)
        for layer in self.layers:
            layer.linear.bias.requires_grad_(False)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.emb(tokens) * mask.unsqueeze(-1)
        for layer in self.layers:
            gate, value = layer(x)
            x = x + gate * value
        return self.output(x)


@model("partly_frozen", loss="next_token", tags=("frozen-parameters",))
def _():
    return PartlyFrozen(), {"tokens": tokens(2, 16), "mask": (torch.rand(2, 16) < 0.8).float()}
