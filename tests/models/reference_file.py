"""Reads the gradients with which memtune compares the trials of a run. Needs only the standard library."""

import glob
import json
import os
import struct

os.environ["MEMTUNE_REFERENCE"] = "gradients"  # for memtune's that start from now on


def read_reference(run: str):
    """Gradients of the baseline as {name: bytes}, empty without a gradient (core/plan/request/reference_file.h)."""
    path, = glob.glob(os.path.join(run, "reference-*.bin"))
    with open(path, "rb") as file:
        content = file.read()
    if content[:8] != b"MTREFER4":
        raise ValueError("the reference file has another form")
    directory = json.loads(content[struct.unpack_from("<Q", content, 8)[0]:])
    if not directory["has_gradients"]:
        raise ValueError("the reference file has hashes alone")
    return {g["name"]: content[24 + g["offset"]:24 + g["offset"] + g["bytes"]] for g in directory["gradients"]}
