"""torchtune's offload engine, executed from its installed package without the packages that torchtune imports.

The engine is one file. It needs a logger, a memory reading to warn by and two classes to test against; stand-ins take
their places, and nothing of the engine is copied or changed. `pip install --no-deps torchtune==0.6.1`, or its unpacked
wheel on PYTHONPATH, is enough.
"""

import importlib.metadata
import importlib.util
import logging
import os
import sys
from types import ModuleType, SimpleNamespace

TESTED = "0.6.1"
FILE = "torchtune/training/_activation_offloading.py"
MODULE = "torchtune.training._activation_offloading"


class MissingEngine(RuntimeError):
    """torchtune is not there; the text says what to install."""


def stand_in(name: str, **attributes) -> ModuleType:
    module = ModuleType(name, "stand-in")
    module.__path__ = []  # lets it be the parent of dotted names
    module.__dict__.update(attributes)
    return module


def stand_ins():
    return [
        stand_in("psutil", virtual_memory=lambda: SimpleNamespace(percent=0.0)),
        stand_in("torchao", __version__="0.17.0"), stand_in("torchao.dtypes"),
        stand_in("torchao.dtypes.nf4tensor", NF4Tensor=type("NF4Tensor", (), {})),
        stand_in("torchtune"), stand_in("torchtune.modules", TiedLinear=type("TiedLinear", (), {})),
        stand_in("torchtune.utils", get_logger=lambda *args: logging.getLogger("torchtune")),
    ]


def version() -> str:
    try:
        return importlib.metadata.version("torchtune")
    except importlib.metadata.PackageNotFoundError:
        raise MissingEngine("torchtune is not installed: pip install --no-deps torchtune==" + TESTED) from None


def load() -> ModuleType:
    """The engine's module. MissingEngine when the package or its file is not there."""
    installed = version()
    path = str(importlib.metadata.distribution("torchtune").locate_file(FILE))
    if not os.path.isfile(path):
        raise MissingEngine(f"torchtune {installed} has no {FILE}; this was written for torchtune=={TESTED}")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    module = importlib.util.module_from_spec(spec)
    temporary = {m.__name__: m for m in [*stand_ins(), module]}
    before = {name: sys.modules.get(name) for name in temporary}
    sys.modules.update(temporary)
    try:
        spec.loader.exec_module(module)
    finally:
        for name, replaced in before.items():
            sys.modules.pop(name)
            if replaced is not None:
                sys.modules[name] = replaced
    return module
