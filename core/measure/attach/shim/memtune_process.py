"""Facts about this process: rank, resident memory, precision."""

import os
import sys

# Modules and the trainers whose settings their users write, the one that stands on others first.
TRAINERS = (("axolotl", "axolotl"), ("llamafactory", "llamafactory"), ("swift", "ms-swift"), ("unsloth", "unsloth"),
            ("torchtune", "torchtune"), ("torchtitan", "torchtitan"), ("megatron.training", "megatron"),
            ("trl.trainer.sft_trainer", "trl"), ("trl.trainer.dpo_trainer", "trl"), ("trl.trainer.grpo_trainer", "trl"),
            ("transformers.trainer", "transformers"), ("deepspeed.runtime.engine", "deepspeed"))


def rank_and_world():
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    for rank, world in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                        ("SLURM_PROCID", "SLURM_NTASKS")):
        if os.environ.get(rank, "").isdigit() and os.environ.get(world, "").isdigit():
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1


def trainer():
    """The one whose library is loaded; empty: none."""
    return next((name for module, name in TRAINERS if module in sys.modules), "")


def resident_peak():
    """Peak of this program alone: getrusage() includes what the process held before exec."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def resident():
    """Bytes now; 0: not known."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def least_precise(loss):
    """The least precise dtype in the graph of a loss. Under autocast the parameters do not show it."""
    names, least = ("float32", "float16", "bfloat16"), ""
    seen, waiting = set(), [loss.grad_fn]
    while waiting and len(seen) < 5000:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(each for each, _ in node.next_functions)
        for passed in getattr(node, "_input_metadata", ()):
            name = str(passed.dtype).split(".")[-1]
            if name in names and (not least or names.index(name) > names.index(least)):
                least = name
    return least


def leave_process_group():
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
