#!/usr/bin/env python3
"""Checks that memtune reads files of Python's safetensors, and that it reads memtune's, bit for bit.

    other_readers_test.py MEMTUNE_COPY_SAFETENSORS

Exit code 77, which ctest reports as skipped, if Python has no safetensors.
"""

import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file
except ImportError:
    sys.exit(77)

NAMES = ["a", "layers.0.weight", "\u00fc \u4e16", 'quoted "x"', "", "line\nbreak"]
DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.int32, torch.float32,
          torch.int64, torch.float64]


def random_tensors(draw):
    tensors = {}
    for name in draw.sample(NAMES, draw.randrange(len(NAMES))):
        shape = [draw.randrange(5) for _ in range(draw.randrange(4))]
        tensors[name] = torch.randint(-100, 100, shape).to(draw.choice(DTYPES))
    return tensors


def check_same(ours, theirs):
    assert ours.keys() == theirs.keys(), (ours.keys(), theirs.keys())
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype and torch.equal(ours[name], tensor), (name, ours[name], tensor)


def metadata_of(path):
    with safe_open(str(path), framework="pt") as file:
        return file.metadata() or {}


def main():
    copy, draw = sys.argv[1], random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = pathlib.Path(folder, "theirs"), pathlib.Path(folder, "ours")
        for _ in range(60):
            metadata = draw.choice([None, {"format": "pt"}, {"step": "7", "\u00fc": "\"\n"}])
            tensors = random_tensors(draw)
            save_file(tensors, str(theirs), metadata)
            subprocess.run([copy, theirs, ours], check=True)
            check_same(load_file(str(ours)), tensors)
            assert metadata_of(ours) == (metadata or {}), metadata_of(ours)
        for cut in range(theirs.stat().st_size):
            theirs.with_name("cut").write_bytes(theirs.read_bytes()[:cut])
            said = subprocess.run([copy, theirs.with_name("cut"), ours], capture_output=True, text=True)
            assert said.returncode == 1 and "is not a safetensors file" in said.stderr, said
    print("60 files read and written alike")


main()
