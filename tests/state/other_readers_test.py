#!/usr/bin/env python3
"""Checks that safetensors and torch.distributed.checkpoint read memtune's states, and memtune their files, bit for bit.

    other_readers_test.py MEMTUNE_COPY_STATE

Exit code 77, which ctest reports as skipped, if Python has no torch or safetensors.
"""

import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
    import torch.distributed.checkpoint as checkpoint
    from safetensors.torch import load_file, save_file
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
except ImportError:
    sys.exit(77)

warnings.filterwarnings("ignore")  # torch.distributed warns that it runs in one process
NAMES = ["layers.0.weight", "layers.0.bias", "optimizer.layers.0.weight.exp_avg", "\u00fc \u4e16", 'quoted "x"']
DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.int32, torch.float32,
          torch.int64, torch.float64]


def random_tensors(draw):
    tensors = {}
    for name in draw.sample(NAMES, draw.randrange(1, len(NAMES) + 1)):
        shape = [draw.randrange(5) for _ in range(draw.randrange(4))]
        tensors[name] = torch.randint(-100, 100, shape).to(draw.choice(DTYPES))
    return tensors


def check_same(ours, theirs):
    assert ours.keys() == theirs.keys(), (ours.keys(), theirs.keys())
    for name, tensor in theirs.items():
        same = ours[name].dtype == tensor.dtype and torch.equal(ours[name], tensor)
        assert same, (name, ours[name], tensor)


def with_checkpoint(folder, like):
    tensors = {name: torch.zeros_like(tensor) for name, tensor in like.items()}
    checkpoint.load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return tensors


def check_rows(state, tensors):
    """A state of three ranks: each file is a safetensors file with rows, and torch.distributed reads whole tensors."""
    rows = {name: tensor.flatten() for name, tensor in tensors.items() if tensor.numel()}
    parts = {name: [] for name in rows}
    files = sorted(state.glob("*.safetensors"))
    assert len(files) == 3, files
    for file in files:
        for name, part in load_file(str(file)).items():
            parts[name].append(part)
    check_same({name: torch.cat(part) for name, part in parts.items()}, rows)
    if rows:
        check_same(with_checkpoint(state, rows), rows)


def with_safetensors(folder):
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors.update(load_file(str(file)))
    return tensors


def write(how, tensors, folder):
    if how == "safetensors":
        save_file(tensors, str(folder / "model.safetensors"))
    else:
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=how == "shards")
        checkpoint.save(tensors, storage_writer=writer, no_dist=True)
    return sorted(folder.glob("*.safetensors"))


def main():
    copy, draw = sys.argv[1], random.Random(5)
    for round in range(30):
        how = ("safetensors", "checkpoint", "shards")[round % 3]
        tensors = random_tensors(draw)
        with tempfile.TemporaryDirectory() as folder:
            theirs, run = pathlib.Path(folder, "theirs"), pathlib.Path(folder, "run")
            theirs.mkdir(), run.mkdir()
            subprocess.run([copy, run, "4", *write(how, tensors, theirs)], check=True)
            for state in ("step-00000004", "step-00000005"):
                check_same(with_safetensors(run / "states" / state), tensors)
                check_same(with_checkpoint(run / "states" / state, tensors), tensors)
            check_rows(run / "states" / "step-00000006", tensors)
    print("30 states read and written alike")


main()
