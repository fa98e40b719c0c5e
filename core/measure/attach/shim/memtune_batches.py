"""Counts rows and tokens of the batches that the iterator of a DataLoader returns."""

import time

import memtune_forwards

IGNORED = -100  # label of a position without a loss
MOST = 1000  # batches that wait for their backward


class Batches:
    def __init__(self, loaders, shares):
        """`loaders`: torch.utils.data.dataloader."""
        self.reset()
        iterator = loaders._BaseDataLoaderIter
        fetch = iterator.__next__

        def __next__(this):
            began = time.perf_counter()
            waits = shares.enter("data")
            try:
                batch = fetch(this)
            finally:
                if waits:
                    shares.leave()
                    shares.workers = getattr(this, "_num_workers", None)
            try:
                self.left(batch, time.perf_counter() - began)
            except Exception:  # a batch of an unknown kind has no size
                self.waiting.append((0, 0, 0))
            return batch

        iterator.__next__ = __next__

    def reset(self):
        self.data = None  # checksum of the first batch, to find ranks that get the same
        self.waiting = []  # rows, tokens and positions of the batches that no backward has used yet
        self.last = (0, 0, 0)  # the batch of the last backward
        self.sizes = []  # the batch of each backward of the step: an evaluation between steps counts once
        self.count, self.wait_s = 0, 0  # batches of the step, and the time until the loader returned them

    def left(self, batch, wait_s=0):
        import torch

        if not torch.is_grad_enabled():  # an evaluation
            return
        tensor, tokens, positions = size_of(batch)
        self.waiting.append((0 if tensor is None else tensor.shape[0], tokens, positions))
        del self.waiting[:-MOST]
        self.count += 1
        self.wait_s += wait_s
        if self.data is None and tensor is not None:
            self.data = checksum(tensor)

    def begin_backward(self):
        """Batches are used in the order in which they left: some loops fetch those of a whole step ahead."""
        if self.waiting:
            self.last = self.waiting.pop(0)
        self.sizes.append(self.last)

    def of_step(self, backwards=None):
        """Of the first backwards, without the count of batches; None: of all of the step."""
        told, sizes = {"batches": 0}, self.sizes[:backwards]
        told.update((name, [size[i] for size in sizes]) for i, name in enumerate(("rows", "tokens", "positions")))
        del self.sizes[:len(sizes)]
        if backwards is None:
            told["batches"], self.count = self.count, 0
            told["wait_ms"], self.wait_s = self.wait_s * 1e3, 0
        return told


def size_of(batch):
    """A tensor whose first dimension is the rows, and its numbers of tokens without padding and of positions. None and 0:
    unknown."""
    from collections.abc import Mapping

    import torch

    def is_tensor(value):
        return isinstance(value, torch.Tensor) and value.dim() > 0

    if is_tensor(batch):
        return batch, 0, 0
    if isinstance(batch, Mapping):
        for key in memtune_forwards.TOKENS:
            value = batch[key] if key in batch else None
            if is_tensor(value) and value.dim() == 2 and not value.is_floating_point():
                return value, tokens_of(batch, value), value.numel()
        parts = list(batch.values())
    else:
        parts = batch if isinstance(batch, (list, tuple)) else ()
        if parts and isinstance(parts[0], Mapping):
            return size_of(parts[0])
    tensors = [part for part in parts if is_tensor(part)]
    # The rows are the first dimension, if all tensors share it.
    return (tensors[0] if len({tensor.shape[0] for tensor in tensors}) == 1 else None), 0, 0


def tokens_of(batch, ids):
    """How many of the positions are no padding: by the mask, or by the labels of a batch without a mask. Documents that
    are packed into a row have their own positions and no padding. A batch on a device is not read, as that would wait
    for it."""
    import torch

    def beside(key):
        value = batch[key] if key in batch else None
        fits = isinstance(value, torch.Tensor) and value.shape == ids.shape and value.device.type == "cpu"
        return value if fits else None

    mask, labels = beside("attention_mask"), beside("labels")
    if mask is not None:
        return int((mask != 0).sum())
    if labels is None or any(key in batch for key in ("position_ids", "input_pos")):
        return ids.numel()
    return int((labels != IGNORED).sum()) or ids.numel()


def checksum(tensor):
    import zlib

    import torch

    if tensor.device.type != "cpu":
        return None
    part = tensor.detach().reshape(-1)[:4096].contiguous()
    return zlib.crc32(part.view(torch.uint8).numpy().tobytes())
