"""What the failing scripts share: flags, a small card, a decoder and its loss."""

import argparse
import sys
from pathlib import Path
from typing import Callable, Dict, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

GIB = 1 << 30
VOCABULARY = 2048


def parse(kinds: Dict[str, Callable]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--memory-gib", type=float, default=8, help="size of the card that it plays; 0: all there is")
    parser.add_argument("--memory-fraction", type=float, help="share of that card, as a user sets it")
    parser.add_argument("--device", default="cuda", help="meta: a played card, whose tensors have no data")
    # What users change after a failure.
    parser.add_argument("--checkpoint", action="store_true", help="gradient checkpointing")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="sdpa")
    parser.add_argument("--optimizer", choices=["adamw", "adafactor"], default="adamw")
    parser.add_argument("--max-length", type=int, default=1 << 30)
    parser.add_argument("--loss", choices=["whole", "chunked"], default="whole")
    parser.add_argument("--evaluation-batch-size", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=1, help="backward calls before a step")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--no-grad", action="store_true")
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--on-cpu", action="store_true", help="what is kept, or not trained, goes to the CPU")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    if options.kind != "hold":
        take_card(options)
    return options


def take_card(options: argparse.Namespace) -> None:
    size = options.memory_gib * (options.memory_fraction or 1)
    if options.device == "meta":
        sys.path.insert(0, str(Path(__file__).resolve().parent))
        import played
        played.start(int((size or 80) * GIB))
    elif size:
        torch.cuda.set_per_process_memory_fraction(size * GIB / torch.cuda.get_device_properties(0).total_memory)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kernel: str):
        super().__init__()
        self.heads, self.kernel = heads, kernel
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if self.kernel == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
            future = torch.ones(att.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            att = att.masked_fill(future, float("-inf"))
            att = F.softmax(att, dim=-1)
            y = att @ v
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kernel: str):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, kernel)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """GPT-2's form. 12 layers of width 1024 are 0.57 GiB in float32."""

    def __init__(self, options: argparse.Namespace, width: int = 1024, layers: int = 12, vocabulary: int = VOCABULARY):
        super().__init__()
        self.checkpoint = options.checkpoint
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, width // 64, options.attention) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def hidden(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoint else block(x)
        return self.norm(x)

    def forward(self, ids: Tensor) -> Tensor:
        return self.lm_head(self.hidden(ids))


def decoder(options: argparse.Namespace, **size) -> Decoder:
    with torch.device(options.device):
        return Decoder(options, **size).to(getattr(torch, options.dtype))


def optimizer_of(model: nn.Module, options: argparse.Namespace, **settings) -> torch.optim.Optimizer:
    if options.optimizer == "adafactor":
        return torch.optim.Adafactor(model.parameters(), lr=1e-3, foreach=False)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, **settings)


def tokens(options: argparse.Namespace, rows: int = 0, length: int = 0, vocabulary: int = VOCABULARY) -> Tensor:
    """Random ones, cut to --max-length."""
    ids = torch.randint(vocabulary, (rows or options.batch_size, length or options.length), device=options.device)
    return ids[:, :options.max_length]


def batches(options: argparse.Namespace, lengths: Sequence[int] = ()) -> Iterator[Tensor]:
    """One for each step; `lengths` of the first ones, then --length."""
    for step in range(options.steps):
        yield tokens(options, length=lengths[step] if step < len(lengths) else options.length)


def next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def update(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace,
          lengths: Sequence[int] = ()) -> None:
    for step, batch in enumerate(batches(options, lengths), 1):
        for ids in batch.chunk(options.accumulation):
            loss = next_token_loss(model(ids), ids) / options.accumulation
            loss.backward()
        update(optimizer)
        report(step, loss)


def report(step: int, loss: Tensor) -> None:
    print(f"step {step}: loss {loss.item():.3f}", flush=True)


def main(kinds: Dict[str, Callable]) -> None:
    options = parse(kinds)
    kinds[options.kind](options)
    print("trained to the end", flush=True)
