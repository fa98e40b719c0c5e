"""Reference models in plain PyTorch. eager.py measures them, and memtune loads them as TorchScript.

There are five kinds, because memory strategies fail on different things:

    Llama    decoder with grouped-query attention; the benchmark model. Saves transposed views of its weights,
             tensors shared by several ops (the input of wq/wk/wv), and strided views (q, k, v).
    GPT      GPT-2-like decoder: dropout (recomputation must replay it) and an output head tied to the embedding.
    ViT      vision transformer, ViT-H/14 by default (632 M parameters): layer norm, GELU, biases, no mask.
    MoE      decoder whose MLPs are experts (top-2 of 8): shapes depend on the data, and a recompute must use the
             same routes.
    ConvNet  residual convolutions with batch norm (running statistics) and in-place ReLU (nothing overwrites its
             saved output, but the op itself writes into its input).

Every model has `layers` (the repeated blocks, called with the hidden state first) and `output` (the head), can be
compiled by torch.jit.script, traced and exported. The same seed gives the same weights on every machine.

    model = build("bench")                       # Llama, 1.10 B parameters
    x, y = make_batch(model, batch=4, length=4096, device="cuda")
    loss = loss_fn(model(x), y)
"""

from typing import Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, eps 1e-5."""

    def __init__(self, d: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.d = d

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, [self.d], self.weight, 1e-5)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding, half-split layout. x: [b, heads, t, head_dim]; cos, sin: [t, head_dim]."""
    x1, x2 = x.chunk(2, -1)
    return x * cos + torch.cat([-x2, x1], -1) * sin


class Attention(nn.Module):
    """Causal grouped-query attention without bias: h query heads, kv key/value heads repeated h/kv times."""

    def __init__(self, d: int, h: int, kv: int):
        super().__init__()
        self.h = h
        self.kv = kv
        self.hd = d // h
        self.wq = nn.Linear(d, h * self.hd, bias=False)
        self.wk = nn.Linear(d, kv * self.hd, bias=False)
        self.wv = nn.Linear(d, kv * self.hd, bias=False)
        self.wo = nn.Linear(h * self.hd, d, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        q = rope(q, cos, sin)
        k = rope(k, cos, sin)
        n = self.h // self.kv
        k = k.repeat_interleave(n, 1)
        v = v.repeat_interleave(n, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(o.transpose(1, 2).reshape(b, t, self.h * self.hd))


class Block(nn.Module):
    """Pre-norm decoder block: attention, then SwiGLU (w1 gate, w3 up, w2 down)."""

    def __init__(self, d: int, h: int, kv: int, f: int):
        super().__init__()
        self.attn = Attention(d, h, kv)
        self.n1 = RMSNorm(d)
        self.n2 = RMSNorm(d)
        self.w1 = nn.Linear(d, f, bias=False)
        self.w2 = nn.Linear(f, d, bias=False)
        self.w3 = nn.Linear(d, f, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x), cos, sin)
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """Llama-style decoder. The defaults are the benchmark model: 1.10 B parameters.

    vocab  vocabulary;  d  hidden size;  n  blocks;  h, kv  query and key/value heads;  f  MLP size;
    t  longest sequence (length of the rope tables, which are buffers).
    forward: tokens [b, t] int64 -> logits [b, t, vocab].
    """

    def __init__(self, vocab: int = 32000, d: int = 2048, n: int = 16, h: int = 32, kv: int = 8, f: int = 8192,
                 t: int = 4096):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList([Block(d, h, kv, f) for _ in range(n)])
        self.norm = RMSNorm(d)
        self.output = nn.Linear(d, vocab, bias=False)
        hd = d // h
        inv = 1.0 / (500000.0 ** (torch.arange(0, hd, 2).float() / hd))
        a = torch.outer(torch.arange(t).float(), inv)
        a = torch.cat([a, a], -1)
        self.register_buffer("cos", a.cos())
        self.register_buffer("sin", a.sin())

    def forward(self, tok: Tensor) -> Tensor:
        x = self.emb(tok)
        t = tok.shape[1]
        cos = self.cos[:t].to(x.dtype)
        sin = self.sin[:t].to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.output(self.norm(x))


class GPTBlock(nn.Module):
    """GPT-2 block: fused qkv, GELU, dropout after attention weights, attention output and MLP."""

    def __init__(self, d: int, h: int, p: float, causal: bool = True):
        super().__init__()
        self.h = h
        self.p = p
        self.causal = causal
        self.n1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.n2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, 4 * d)
        self.fc2 = nn.Linear(4 * d, d)
        self.drop = nn.Dropout(p)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        p = self.p if self.training else 0.0
        o = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=self.causal)
        x = x + self.drop(self.proj(o.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.fc2(F.gelu(self.fc1(self.n2(x)), approximate="tanh")))


class GPT(nn.Module):
    """GPT-2-like decoder with dropout; `output.weight` and `emb.weight` are one parameter.

    vocab, d, n, h  as in Llama;  t  longest sequence;  p  dropout probability.
    forward: tokens [b, t] int64 -> logits [b, t, vocab].
    """

    def __init__(self, vocab: int = 50257, d: int = 768, n: int = 12, h: int = 12, t: int = 1024, p: float = 0.1):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(t, d)
        self.drop = nn.Dropout(p)
        self.layers = nn.ModuleList([GPTBlock(d, h, p) for _ in range(n)])
        self.norm = nn.LayerNorm(d)
        self.output = nn.Linear(d, vocab, bias=False)
        nn.init.normal_(self.emb.weight, std=0.02)
        self.output.weight = self.emb.weight

    def forward(self, tok: Tensor) -> Tensor:
        x = self.drop(self.emb(tok) + self.pos(torch.arange(tok.shape[1], device=tok.device)))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


class ViT(nn.Module):
    """Vision transformer over square patches, classified by its first token. The defaults are ViT-H/14.

    d, n, h  as in Llama;  patch, side  pixels;  classes.
    forward: images [b, 3, side, side] -> logits [b, classes].
    """

    def __init__(self, d: int = 1280, n: int = 32, h: int = 16, patch: int = 14, side: int = 224, classes: int = 1000):
        super().__init__()
        self.classes = classes
        self.stem = nn.Conv2d(3, d, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, 1 + (side // patch) ** 2, d) * 0.02)
        self.layers = nn.ModuleList([GPTBlock(d, h, 0.0, causal=False) for _ in range(n)])
        self.norm = nn.LayerNorm(d)
        self.output = nn.Linear(d, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x)[:, 0])


class Expert(nn.Module):
    """SwiGLU MLP."""

    def __init__(self, d: int, f: int):
        super().__init__()
        self.w1 = nn.Linear(d, f, bias=False)
        self.w2 = nn.Linear(f, d, bias=False)
        self.w3 = nn.Linear(d, f, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MoEBlock(nn.Module):
    """Pre-norm decoder block. Its MLP is the weighted sum of a token's two best experts. No token is dropped."""

    def __init__(self, d: int, h: int, kv: int, f: int, experts: int):
        super().__init__()
        self.attn = Attention(d, h, kv)
        self.n1 = RMSNorm(d)
        self.n2 = RMSNorm(d)
        self.router = nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList([Expert(d, f) for _ in range(experts)])

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x), cos, sin)
        y = self.n2(x).flatten(0, 1)
        weight, choice = self.router(y).softmax(-1).topk(2, -1)
        mixed = torch.zeros_like(y)
        for i, expert in enumerate(self.experts):
            chosen = (choice == i).nonzero()
            token, rank = chosen[:, 0], chosen[:, 1]
            mixed = mixed.index_add(0, token, expert(y[token]) * weight[token, rank].unsqueeze(-1))
        return x + mixed.view_as(x)


class MoE(Llama):
    """Llama with experts. The defaults have 0.91 B parameters, and 0.30 B of them are active per token."""

    def __init__(self, vocab: int = 32000, d: int = 1024, n: int = 12, h: int = 16, kv: int = 4, f: int = 2752,
                 t: int = 4096, experts: int = 8):
        super().__init__(vocab, d, 0, h, kv, f, t)
        self.layers = nn.ModuleList([MoEBlock(d, h, kv, f, experts) for _ in range(n)])


class ConvBlock(nn.Module):
    """Residual block: conv, batch norm, in-place ReLU, conv, batch norm, in-place add, in-place ReLU."""

    def __init__(self, c: int):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x
        return self.relu(y)


class ConvNet(nn.Module):
    """Residual network without down-sampling. c  channels;  n  blocks;  classes.

    forward: images [b, 3, s, s] -> logits [b, classes].
    """

    def __init__(self, c: int = 256, n: int = 16, classes: int = 1000):
        super().__init__()
        self.classes = classes
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.layers = nn.ModuleList([ConvBlock(c) for _ in range(n)])
        self.output = nn.Linear(c, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.output(x.mean((2, 3)))


# name -> (class, arguments, default batch, default length: tokens of a sequence or pixels of an image's side)
MODELS = {
    "bench": (Llama, dict(), 4, 4096),
    "small": (Llama, dict(vocab=8192, d=512, n=8, h=8, kv=4, f=2048), 4, 1024),
    "tiny": (Llama, dict(vocab=256, d=64, n=4, h=4, kv=2, f=192), 2, 64),
    "gpt": (GPT, dict(), 4, 1024),
    "gpt_tiny": (GPT, dict(vocab=256, d=64, n=4, h=4), 2, 64),
    "vit": (ViT, dict(), 128, 224),
    "vit_tiny": (ViT, dict(d=64, n=4, h=4, patch=4, classes=10), 2, 16),
    "moe": (MoE, dict(), 4, 4096),
    "moe_tiny": (MoE, dict(vocab=256, d=64, n=4, h=4, kv=2, f=96, experts=4), 2, 64),
    "conv": (ConvNet, dict(), 16, 64),
    "conv_tiny": (ConvNet, dict(c=16, n=4, classes=10), 2, 16),
}


def build(name: str, length: int = 0, seed: int = 0) -> nn.Module:
    """Builds a named model in float32 on the CPU, in training mode, with random weights from `seed`.

    length  longest sequence of a decoder, or side of an image; 0: the model's default.
    """
    if name not in MODELS:
        raise SystemExit(f"unknown model '{name}'; known: {', '.join(MODELS)}")
    cls, args, _, default_length = MODELS[name]
    if cls is not ConvNet:
        args = {**args, "side" if cls is ViT else "t": length or default_length}
    torch.manual_seed(seed)
    return cls(**args).train()


def takes_images(model: nn.Module) -> bool:
    return isinstance(model, (ConvNet, ViT))


def make_batch(model: nn.Module, batch: int, length: int, device: str = "cpu", seed: int = 0) -> Tuple[Tensor, Tensor]:
    """Random input and target. For decoders both are the same tokens, else images in the model's dtype and labels."""
    torch.manual_seed(seed)
    if takes_images(model):
        dtype = next(model.parameters()).dtype
        images = torch.randn(batch, 3, length, length).to(device=device, dtype=dtype)
        return images, torch.randint(0, model.classes, (batch,)).to(device)
    tokens = torch.randint(0, model.vocab, (batch, length)).to(device)
    return tokens, tokens


def loss_fn(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy in float32. Decoder logits [b, t, vocab]: next-token loss; [b, classes]: classification."""
    if logits.dim() == 3:
        logits = logits[:, :-1].flatten(0, 1)
        target = target[:, 1:].flatten()
    return F.cross_entropy(logits.float(), target)


def dtype_of(name: str) -> torch.dtype:
    """bf16, fp16 or fp32."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]
