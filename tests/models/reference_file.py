"""The gradients that memtune compares the trials of a run with. Needs Python's standard library only."""

import glob
import json
import os
import struct


def read_reference(run: str):
    """Of the baseline, as bytes by name; none where no gradient came (core/plan/request/reference_file.h)."""
    path, = glob.glob(os.path.join(run, "reference-*.bin"))
    with open(path, "rb") as file:
        content = file.read()
    if content[:8] != b"MTREFER3":
        raise ValueError("the reference file has another form")
    directory = json.loads(content[struct.unpack_from("<Q", content, 8)[0]:])
    return {g["name"]: content[24 + g["offset"]:24 + g["offset"] + g["bytes"]] for g in directory["gradients"]}
