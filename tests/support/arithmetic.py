"""Identifies what determines PyTorch's rounding on a CPU, so that stored references are compared only with that."""
import hashlib
import os

VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA")


def arithmetic(environment=os.environ, cpuinfo="/proc/cpuinfo") -> str:
    """A stamp that depends on the processor and on the instructions and threads that libraries may use."""
    digest = hashlib.sha256(repr([environment.get(name) for name in VARIABLES]).encode())
    try:
        with open(cpuinfo) as file:
            digest.update("".join(sorted({line for line in file if line.startswith(("model name", "flags"))})).encode())
    except OSError:
        pass
    digest.update(str(os.cpu_count()).encode())
    return "arithmetic " + digest.hexdigest()[:16]
