"""Plays a CUDA device with meta tensors. A caching allocator like PyTorch's gives bytes to live storages, and fails at
a limit. With memtune's shim in the process it also plays what the shim reads. So the failing scripts, and what memtune
concludes from them, can be tried without a GPU. Workspaces of libraries are not played.
"""

import bisect
import os
import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB, GIB = 1 << 20, 1 << 30
aten = torch.ops.aten
BACKWARD = "_engine_run_backward"  # what is above it runs in a thread of its own on CUDA


def frames() -> List[dict]:
    found: List[dict] = []
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != BACKWARD:
        if frame.f_code.co_filename != __file__:
            found.append(dict(filename=frame.f_code.co_filename, line=frame.f_lineno, name=frame.f_code.co_name))
        frame = frame.f_back
    return found


class Block:
    """A part of a segment."""

    def __init__(self, size: int, before: Optional["Block"] = None, after: Optional["Block"] = None):
        self.size, self.before, self.after, self.free = size, before, after, True


class Allocator:
    """Segments are split for smaller requests, which take the smallest free block that has room."""

    def __init__(self, limit: int, expandable: bool):
        self.limit, self.expandable, self.reserved, self.allocated = limit, expandable, 0, 0
        self.free: Dict[bool, List[Tuple[int, int, Block]]] = {True: [], False: []}  # whether of small blocks

    def give(self, size: int) -> Optional[Block]:
        """None: out of memory."""
        if self.expandable:  # pages can lie anywhere, so only their sum counts
            if self.allocated + size > self.limit:
                return None
            self.allocated = self.reserved = self.allocated + size
            return Block(size)
        small = size <= MIB
        block = self.found(small, size) or self.segment(small, size)
        if block is None and self.release() > 0:
            block = self.segment(small, size)
        if block is None:
            return None
        rest = block.size - size
        if rest >= (512 if small else MIB + 1):
            block.after = Block(rest, block, block.after)
            if block.after.after:
                block.after.after.before = block.after
            block.size = size
            self.add(block.after, small)
        block.free, block.small = False, small
        self.allocated += block.size
        return block

    def take(self, block: Block) -> None:
        self.allocated -= block.size
        if self.expandable:
            self.reserved = self.allocated
            return
        for other in (block.before, block.after):
            if other and other.free:
                self.remove(other, block.small)
        if block.before and block.before.free:
            block.size += block.before.size
            block.before = block.before.before
        if block.after and block.after.free:
            block.size += block.after.size
            block.after = block.after.after
        if block.before:
            block.before.after = block
        if block.after:
            block.after.before = block
        block.free = True
        self.add(block, block.small)

    def add(self, block: Block, small: bool) -> None:
        bisect.insort(self.free[small], (block.size, id(block), block))

    def remove(self, block: Block, small: bool) -> None:
        del self.free[small][bisect.bisect_left(self.free[small], (block.size, id(block)))]

    def found(self, small: bool, size: int) -> Optional[Block]:
        at = bisect.bisect_left(self.free[small], (size, 0))
        return self.free[small].pop(at)[2] if at < len(self.free[small]) else None

    def segment(self, small: bool, size: int) -> Optional[Block]:
        whole = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved + whole > self.limit:
            return None
        self.reserved += whole
        return Block(whole)

    def release(self) -> int:
        """Gives back segments in which nothing is allocated."""
        before = self.reserved
        for small, blocks in self.free.items():
            self.reserved -= sum(block.size for _, _, block in blocks if not block.before and not block.after)
            self.free[small] = [each for each in blocks if each[2].before or each[2].after]
        return before - self.reserved


class Card(TorchDispatchMode):
    def __init__(self, limit: int):
        super().__init__()
        self.limit, self.peak = limit, 0
        settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        self.allocator = Allocator(limit, "expandable_segments:True" in settings)
        self.blocks: Dict[int, Any] = {}  # None: the script moved it to the CPU
        self.observers: List[Any] = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        named = named or {}
        if function is aten._local_scalar_dense.default and arguments[0].is_meta:
            return 1.0
        if function is aten.is_pinned.default:
            return False
        to_host = function is aten._to_copy.default and str(named.get("device")) == "cpu" and arguments[0].is_meta
        if to_host:
            named = dict(named, device=torch.device("meta"))
        result = function(*arguments, **named)
        for each in tree_leaves(result):
            if isinstance(each, Tensor) and each.is_meta:
                self.add(each, to_host or self.is_on_host(arguments))
        return result

    def is_on_host(self, arguments) -> bool:
        given = [each for each in tree_leaves(arguments) if isinstance(each, Tensor)]
        return bool(given) and all(self.blocks.get(each.untyped_storage()._cdata, 0) is None for each in given)

    def add(self, tensor: Tensor, on_host: bool) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, -(-storage.nbytes() // 512) * 512
        if size == 0 or key in self.blocks:
            return
        if on_host:
            self.blocks[key] = None
        else:
            block = self.allocator.give(size)
            if block is None:
                self.fail(size)
            self.peak = max(self.peak, self.allocator.allocated)
            self.blocks[key] = dict(address=key, size=size, state="active_allocated", block=block,
                                    frames=frames() if self.observers else ())
        weakref.finalize(storage, self.remove, key)

    def remove(self, key: int) -> None:
        block = self.blocks.pop(key)
        if block:
            self.allocator.take(block["block"])

    def fail(self, size: int) -> None:
        for observer in self.observers:
            observer(0, size, self.limit, 80 * GIB - self.allocator.reserved)
        now, asked = self.allocator, f"{size / MIB:.2f} MiB" if size < GIB else f"{size / GIB:.2f} GiB"
        raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {asked}. Allocated: "
                                     f"{now.allocated / GIB:.2f} GiB, in pieces: "
                                     f"{(now.reserved - now.allocated) / GIB:.2f} GiB.")

    def stats(self, device=None) -> Dict[str, int]:
        now = self.allocator
        return {"allocated_bytes.all.current": now.allocated, "allocated_bytes.all.peak": self.peak,
                "reserved_bytes.all.current": now.reserved, "reserved_bytes.all.peak": now.reserved}

    def snapshot(self, include_traces=True) -> List[dict]:
        return [dict(device=0, blocks=[dict(block, block=None) for block in self.blocks.values() if block])]


class Event:
    def __init__(self, enable_timing=False):
        pass

    def record(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, other):
        return 1.0


class Attention(torch.autograd.Function):
    """The memory of a fused kernel: the output, and a float for each row of scores."""

    @staticmethod
    def forward(context, q, k, v):
        y, sums = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
        context.save_for_backward(q, k, v, y, sums)
        return y

    @staticmethod
    def backward(context, gradient):
        q, k, v, _, _ = context.saved_tensors
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def play_shim(card: Card) -> None:
    cuda, shim = torch.cuda, sys.modules["memtune_oom"]
    cuda.Event, cuda.is_initialized, cuda.is_current_stream_capturing = Event, lambda: True, lambda: False
    cuda.synchronize, cuda.current_device, cuda.get_device_name = lambda: None, lambda: 0, lambda: "NVIDIA Played"
    cuda.memory_allocated, cuda.max_memory_allocated = lambda *_: card.allocator.allocated, lambda *_: card.peak
    cuda.max_memory_reserved = lambda *_: card.allocator.reserved
    cuda.mem_get_info = lambda *_: (80 * GIB - card.allocator.reserved, 80 * GIB)
    cuda.memory_stats, cuda.memory_snapshot = card.stats, card.snapshot
    cuda.memory._record_memory_history = lambda *_, **__: None
    cuda.get_allocator_backend, cuda._get_nvml_device_index = lambda: "native", lambda device: device
    cuda.get_device_properties = lambda device: type("Properties", (), dict(total_memory=80 * GIB))
    torch._C._cuda_isHistoryEnabled = lambda: True
    torch._C._cuda_attach_out_of_memory_observer = card.observers.append

    def new_bytes(values, device, seen):
        keys = {each.untyped_storage()._cdata for each in shim.tensors_in(values, shim.NESTED) if each.is_meta} - seen
        seen.update(keys)
        return sum(block["size"] for block in map(card.blocks.get, keys) if block)

    is_own = shim.is_own
    shim.new_bytes, shim.is_own = new_bytes, lambda file: file != __file__ and is_own(file)
    for call in [each[0] for each in cuda._queued_calls if "guarded" in each[0].__code__.co_names]:
        call()


def start(limit: int) -> Card:
    card = Card(limit)
    if os.environ.get("MEMTUNE_ATTACH"):
        play_shim(card)
    torch.nn.functional.scaled_dot_product_attention = lambda q, k, v, *_, **__: Attention.apply(q, k, v)
    torch.Tensor.cpu = lambda self: self.to("cpu")
    card.__enter__()
    import atexit
    atexit.register(lambda: print(f"peak {card.peak / GIB:.2f} of {limit / GIB:.2f} GiB", file=sys.stderr))
    return card
