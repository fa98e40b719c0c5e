"""Shared by the tests of the Python plan: the template as a module, models, plans and the bits of a step."""
import contextlib
import functools
import os
import sys
import tempfile
import types
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from arithmetic import arithmetic

# The compiler's cache would load AVX-512 code on a processor, or with an ATEN_CPU_CAPABILITY, without it (torch 2.11).
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR",
                      os.path.join(tempfile.gettempdir(), f"memtune-{os.getuid()}-" + arithmetic().replace(" ", "-")))

import torch
from torch import nn
from torch.nn import functional as F

NIGHT = "MEMTUNE_NIGHT" in os.environ
PARTS = os.path.join(ROOT, "core", "answer", "trainer", "python")


def read(path):
    with open(path) as file:
        return file.read()


EAGER, STILL = ("eager", "moves", "resident", "copies"), ("eager", "stays", "resident", "still")
COMPILED = ("compiled", "moves", "resident", "copies")
STATES, MOVING_STATES = ("eager", "stays", "states", "copies"), ("eager", "moves", "states", "copies")


def template(part, words):
    """The lines of a part between marks with these words, and those of the parts that it includes."""
    lines, goes = [], part == "plan"
    for line in read(os.path.join(PARTS, f"memtune_{part}.py")).splitlines():
        mark = line.strip()
        if mark.startswith("# --- ") and not lines:
            goes = True
        if mark.startswith("# [include ") and goes:
            lines += template(mark[11:-1], words)
        elif mark.startswith("# ["):
            goes = mark == "# [end]" or all(word in words for word in mark[3:-1].split())
        elif goes and (line or lines[-2:] != ["", ""]):
            lines.append(line)
    return lines


def joined(words=EAGER):
    """The file that export writes from the template for a plan with these words. check_export.py uses export itself."""
    return "\n".join(template("plan", words)) + "\n"


def load(path=None, words=EAGER):
    module = types.ModuleType("memtune_plan")
    sys.modules["memtune_plan"] = module
    exec(compile(read(path) if path else joined(words), path or "joined", "exec"), module.__dict__)
    return module


def with_kernels(check):
    """Marks a check that runs generated code of the compiler."""
    check.kernels = True
    return check


def at_night(check):
    """Marks a check that runs only with MEMTUNE_NIGHT, or if the command line names it."""
    check.at_night = True
    return check


@contextlib.contextmanager
def without_kernels():
    """Runs the compiler's graphs op by op, with eager Python's random numbers. Generating code would take most of the
    time of a test."""
    from functorch.compile import make_boxed_func
    from torch._inductor import compile_fx, config

    def run_by_op(graph, inputs, **_):
        return make_boxed_func(graph.forward)

    compile_by_op = functools.partial(compile_fx.compile_fx, inner_compile=run_by_op)
    with mock.patch.object(compile_fx, "compile_fx", compile_by_op), config.patch(fallback_random=True):
        yield


@contextlib.contextmanager
def compiled_alone(blocks, budget=1.0):
    """Runs blocks under torch.compile without a plan."""
    torch._dynamo.reset()
    for block in blocks:
        block.compile()
    try:
        with torch._functorch.config.patch(activation_memory_budget=budget, enable_autograd_cache=False):
            yield
    finally:
        for block in blocks:
            block._compiled_call_impl = None


def stay(module, run):
    """Keeps all activations on the device, for any choice."""
    run.placed = lambda t: module.Value(run, "keep", t)


def run_checks(of):
    """Runs the checks among a test's globals, or those that the command line names."""
    torch.set_num_threads(1)
    chosen = sys.argv[1:]
    for name, check in list(of.items()):
        if name.startswith("check_") and (name in chosen if chosen else NIGHT or not hasattr(check, "at_night")):
            with contextlib.nullcontext() if hasattr(check, "kernels") else without_kernels():
                check()
            print("ok", name, flush=True)


PLACES = ("keep", "recompute", "host")
EVERY_PLAN = [f"{result} {own}" for result in PLACES for own in PLACES]


def data(blocks, others, path="layers", ops=None, **fields):
    """A plan with the same policy for all blocks, without a minimum size."""
    return {"name": "test", "path": path, "blocks": blocks, "parameters": 0, "input": "host", "regions": "",
            "treatments": [{"blocks": list(range(blocks)), "others": others, "ops": ops or {}}],
            "min_bytes": 0, "saved_min_bytes": 0, "stash_bytes": 1 << 16, "prefetch_blocks": 1,
            "compile": {"left_bytes": 0, "hidden_bytes": 1 << 30}, **fields}


class Attention(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, scale=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        o = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True)
        o = o.transpose(1, 2).reshape(b, t, d)
        return self.proj(o if scale is None else o * scale)


class Block(nn.Module):
    """A block with a keyword argument, a tuple as result, dropout, and an in-place write."""

    def __init__(self, d, heads, p):
        super().__init__()
        self.n1, self.attn, self.n2 = nn.LayerNorm(d), Attention(d, heads, p), nn.LayerNorm(d)
        self.up, self.down, self.drop = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), nn.Dropout(p)

    def forward(self, x, *, scale=None):
        x = x + self.drop(self.attn(self.n1(x), scale))
        h = self.up(self.n2(x))
        h = F.relu_(h) * torch.sigmoid(h.detach())
        h = h.softmax(-1) + h
        h *= 2
        return x + self.drop(self.down(h)), x.mean()


class Decoder(nn.Module):
    def __init__(self, n=3, d=32, heads=4, p=0.1, tied=True):
        super().__init__()
        self.emb = nn.Embedding(64, d)
        self.layers = nn.ModuleList([Block(d, heads, p) for _ in range(n)])
        self.head = nn.Linear(d, 64, bias=False)
        if tied:
            self.head.weight = self.emb.weight
        self.scale = nn.Parameter(torch.ones(d))

    def forward(self, tokens):
        x, aside = self.emb(tokens), 0
        for layer in self.layers:
            x, mean = layer(x, scale=self.scale)
            aside = aside + mean
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten()) + 0.1 * aside


def tokens(batch=2, length=16, seed=0):
    return torch.randint(64, (batch, length), generator=torch.Generator().manual_seed(seed))


def step(model, loss, seed=3):
    """Loss and gradients of one step, with the same random numbers each time."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    value = loss(model)
    value.backward()
    return [value.detach().clone()] + [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def equal(a, b):
    return len(a) == len(b) and all((x is None and y is None) or torch.equal(x, y) for x, y in zip(a, b))


def near(a, b):
    """Whether values are equal except for rounding. The largest gradients determine the rounding of all."""
    values = [(x, y) for x, y in zip(a, b) if y is not None and y.is_floating_point() and y.numel()]
    largest = max((y.abs().max().item() for _, y in values), default=0.0)
    return [x is None for x in a] == [y is None for y in b] and all(
        (x - y).abs().max() <= 1e-3 * y.abs().max() + 1e-6 * largest + 1e-5 for x, y in values)


def llama(layers, **options):
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, **options))


def with_lora(model, **options):
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "down_proj"], **options))
    for name, p in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(p, generator=torch.Generator().manual_seed(1))
    return model


def language_loss(model):
    ids = tokens()
    return model(input_ids=ids, labels=ids).loss


def local(values):
    """The local shards of a rank."""
    return [v.to_local() if hasattr(v, "to_local") else v for v in values]


def be_rank(index, kind, folder, check, options):
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=index, world_size=2, init_method=f"file://{folder}/meet")
    torch.manual_seed(0)
    model = Decoder(tied=False, **options)
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.fsdp import fully_shard
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    check(model, lambda m: m(tokens(seed=index)))
    dist.destroy_process_group()


def on_two_ranks(check, **options):
    """Calls `check` with a Decoder under DDP and under FSDP2, and with the loss of the rank."""
    for kind in ("ddp", "fsdp2"):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(be_rank, (kind, folder, check, options), nprocs=2)


@contextlib.contextmanager
def applied(module, model, plan, **options):
    module.PLAN = plan
    run = module.apply(model, **options)
    try:
        yield run
    finally:
        run.remove()


class LateStreams:
    """A mixin for Streams. A copy runs only when something waits for it, and fails if its memory is freed by then."""

    def __init__(self, device):
        super().__init__(device)
        self.out, self.back, self.late = [], [], 0

    def now(self):
        return None

    def wait(self, event):
        if event is not None:
            event.run()

    def copy(self, stream, target, source, *after):
        copy = LateCopy(target, source, [e for e in after if e is not None] + stream[-1:])
        stream.append(copy)
        self.late += 1
        return copy


class LateCopy:
    def __init__(self, target, source, after):
        from torch.multiprocessing.reductions import StorageWeakRef
        self.ends = [(StorageWeakRef(t.untyped_storage()), t.numel()) for t in (target, source)]
        self.after = after

    def query(self):
        return not self.ends

    def run(self):
        if not self.ends:
            return
        for copy in self.after:
            copy.run()
        target, source = [self.tensor(*end) for end in self.ends]
        target.copy_(source)
        self.ends, self.after = [], []

    @staticmethod
    def tensor(storage, count):
        if storage.expired():
            raise RuntimeError("a copy's memory was given away before the copy ran")
        whole = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
        return torch.empty(0, dtype=torch.uint8).set_(whole, 0, (count,), (1,))
