"""Loads the trainers' own offload engines from their released packages, without the packages' other imports.

Each engine is one file, neither copied nor changed. Stubs replace loggers, version tests and classes that it uses only
in type checks. So it is enough to unpack the wheels into a folder on PYTHONPATH:

    pip install --no-deps --target PEERS torchtune==0.6.1 trl==1.16.0 axolotl==0.19.0 ms_swift==4.6.0
    PYTHONPATH=PEERS python peers.py          # prints which of them load here
"""

import contextlib
import importlib.metadata
import importlib.util
import logging
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Dict, Tuple

TESTED = {"torchtune": "0.6.1", "trl": "1.16.0", "axolotl": "0.19.0", "ms_swift": "4.6.0"}

# Package, and the files to execute in this order: the engine is last, after the files that it imports from its package.
ENGINES: Dict[str, Tuple[str, ...]] = {
    "torchtune": ("torchtune", "torchtune/training/_activation_offloading.py"),
    "trl": ("trl", "trl/models/activation_offloading.py"),
    "axolotl-sac": ("axolotl", "axolotl/monkeypatch/selective_checkpointing.py",
                    "axolotl/monkeypatch/selective_checkpointing_offload.py"),
    "axolotl-hidden": ("axolotl", "axolotl/monkeypatch/checkpoint_activation_offload.py"),
    "axolotl-alst": ("axolotl", "axolotl/monkeypatch/activation_offload_checkpoint.py"),
    "axolotl-disco": ("axolotl", "axolotl/monkeypatch/gradient_checkpointing/offload_disk.py"),
    "swift": ("ms_swift", "swift/callbacks/activation_cpu_offload.py"),
}

STAND_INS = ("psutil", "torchao", "torchao.dtypes.nf4tensor", "torchtune.modules", "torchtune.utils",
             "accelerate.logging", "accelerate.utils.versions", "transformers", "transformers.trainer_callback",
             "transformers.training_args", "transformers.utils", "axolotl.utils.logging", "swift.utils",
             "swift.callbacks.base")
CLASSES = ("NF4Tensor", "TiedLinear", "GradientCheckpointingLayer", "TrainerCallback", "TrainerControl", "TrainerState",
           "TrainingArguments")


class MissingPeer(RuntimeError):
    """A package is missing, or is not the expected one. The text names what to install."""


def no(*args) -> bool:
    return False


def yes(*args) -> bool:
    return True


def names():
    """Stubs for everything that the engines import, in one table."""
    return {**{name: type(name, (), {}) for name in CLASSES},
            "get_logger": lambda *args: logging.getLogger("peer"),
            "virtual_memory": lambda: SimpleNamespace(percent=0.0),  # the engines use it only for warnings
            "is_torch_version": yes, "is_torch_npu_available": no, "is_torch_musa_available": no}


def stand_ins() -> Dict[str, ModuleType]:
    modules = {name: ModuleType(name, "stand-in") for name in STAND_INS}
    for module in modules.values():
        module.__dict__.update(names())
    return modules


@contextlib.contextmanager
def imported(modules: Dict[str, ModuleType]):
    """Inside, the modules can be imported by their names. Afterwards the previous modules are restored."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def execute(package: str, file: str) -> ModuleType:
    path = str(importlib.metadata.distribution(package).locate_file(file))
    if not os.path.isfile(path):
        raise MissingPeer(f"{version(package)} has no {file}; this was written for {package}=={TESTED[package]}")
    spec = importlib.util.spec_from_file_location(file[:-len(".py")].replace("/", "."), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def version(package: str) -> str:
    """"trl 1.16.0"."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        raise MissingPeer(f"{package} is not there: pip install --no-deps {package}=={TESTED[package]}") from None


def load(name: str) -> ModuleType:
    """Executes the module of the engine again and returns it."""
    package, *files = ENGINES[name]
    installed = version(package)
    own = {file[:-len(".py")].replace("/", "."): None for file in files}
    try:
        with imported({**stand_ins(), **own}):
            return [execute(package, file) for file in files][-1]
    except ImportError as error:
        raise MissingPeer(f"{installed} imports something new ({error}); "
                          f"this was written for {package}=={TESTED[package]}") from error


def main():
    for name, (package, *_) in ENGINES.items():
        try:
            load(name)
            print(f"{name:16} {version(package)}")
        except MissingPeer as missing:
            print(f"{name:16} {missing}")


if __name__ == "__main__":
    main()
