"""Writes a safetensors file. Needs only torch."""

import ctypes
import json
import struct
from typing import Dict

import torch
from torch import Tensor

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def save_safetensors(tensors: Dict[str, Tensor], path: str):
    header, data = {}, b""
    for name, tensor in tensors.items():
        tensor = tensor.cpu().contiguous()
        raw = ctypes.string_at(tensor.data_ptr(), tensor.nbytes)
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
