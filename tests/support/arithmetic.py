"""Identifies everything that affects PyTorch's rounding on a CPU. Stored references are valid only for the same."""
import hashlib
import os

VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA")


def arithmetic(environment=os.environ, cpuinfo="/proc/cpuinfo") -> str:
    """A stamp of the processor, and of the instructions and threads that libraries may use."""
    digest = hashlib.sha256(repr([environment.get(name) for name in VARIABLES]).encode())
    try:
        with open(cpuinfo) as file:
            digest.update("".join(sorted({line for line in file if line.startswith(("model name", "flags"))})).encode())
    except OSError:
        pass
    digest.update(str(os.cpu_count()).encode())
    return "arithmetic " + digest.hexdigest()[:16]
