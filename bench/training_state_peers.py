"""Saving the training state (parameters and AdamW moments) with torch.save and torch.distributed.checkpoint (DCP).

Saves several times in each way, because some fail or slow down only at the second save. Measures how long training is
blocked, how long until the save reports completion and until it is on the disk (sync), and the steps meanwhile.

    python training_state_peers.py --folder /data/scratch            # 1.10 B parameters, state of 6.63 GB
    python training_state_peers.py --way async-staged --verify       # is the saved state that of one moment?
    python training_state_peers.py --device cpu

Prints one JSON object per line: first the setting, then one per save. One process, one rank. training_state.py calls
this.
"""

import argparse
import json
import os
import shutil
import statistics
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from eager import write_model
from model import MODELS, build, dtype_of, loss_fn, make_batch, takes_images


class Trainer:
    """A model, its optimizer and one batch."""

    def __init__(self, options):
        self.device = options.device
        with torch.device(options.device):  # random weights are faster there
            self.model = build(options.model, options.length).to(dtype_of(options.dtype))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.batch = make_batch(self.model, options.batch, options.length, options.device)

    def step(self) -> float:
        """Runs one training step and returns its milliseconds."""
        start = time.perf_counter()
        x, y = self.batch
        loss_fn(self.model(x), y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.synchronize()
        return (time.perf_counter() - start) * 1e3

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def state(self):
        moments = {str(i): dict(self.optimizer.state[p]) for i, p in enumerate(self.model.parameters())}
        return {"model": self.model.state_dict(), "optimizer": moments}


def tensors(state, prefix=""):
    """Yields (name, tensor) of a nested dictionary."""
    for key, value in state.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from tensors(value, name + "/")
        elif isinstance(value, torch.Tensor):
            yield name, value


# Ways to save: each takes the state and a folder and returns None, or the future of an asynchronous save.

def writer(folder):
    return dcp.FileSystemWriter(folder, thread_count=8)


class Staged:
    """async_save through a stager with pinned, shared memory, in a thread or in its own process. Uses one stager for
    all saves, or a new one for each, because the one of torch 2.11 raises KeyError when it stages a second time."""

    def __init__(self, kind, keep: bool):
        self.kind = kind
        self.keep = keep
        self.stager = None

    def __call__(self, state, folder):
        if self.stager is None or not self.keep:
            on_cuda = torch.cuda.is_available()
            self.stager = DefaultStager(StagingOptions(use_pinned_memory=on_cuda, use_shared_memory=True,
                                                       use_async_staging=on_cuda, use_non_blocking_copy=on_cuda))
        return dcp.async_save(state, storage_writer=writer(folder), async_stager=self.stager,
                              async_checkpointer_type=self.kind)


WAYS = {
    "torch.save": lambda state, folder: torch.save(state, os.path.join(folder, "state.pt")),
    "sync": lambda state, folder: dcp.save(state, checkpoint_id=folder) and None,
    "sync-8-threads": lambda state, folder: dcp.save(state, storage_writer=writer(folder)) and None,
    "async": lambda state, folder: dcp.async_save(state, checkpoint_id=folder),
    "async-staged": Staged(AsyncCheckpointerType.THREAD, keep=True),
    "async-new-stager": Staged(AsyncCheckpointerType.THREAD, keep=False),
    "async-process": Staged(AsyncCheckpointerType.PROCESS, keep=False),
}


def upload(pending):
    """The future of the written files. async_save returns it, or a pair of futures (staging, upload)."""
    return pending if hasattr(pending, "result") else pending.upload_completion


def wrong_tensors(folder, way, reference):
    """Names of the tensors in the saved state that differ from the reference."""
    if way == "torch.save":
        loaded = torch.load(os.path.join(folder, "state.pt"), map_location="cpu", weights_only=True)
    else:
        loaded = empty_like(reference)
        dcp.load(loaded, checkpoint_id=folder)
    loaded = dict(tensors(loaded))
    return [name for name, t in tensors(reference) if not torch.equal(t, loaded[name])]


def empty_like(state):
    return {k: empty_like(v) if isinstance(v, dict) else torch.zeros_like(v) for k, v in state.items()}


def on_cpu(state):
    return {k: on_cpu(v) if isinstance(v, dict) else v.detach().cpu().clone() for k, v in state.items()}


def bytes_in(folder) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")


def peak_rss() -> int:
    """Peak of the resident set of this process since reset_peak()."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def save_once(trainer, way, folder, verify):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    os.sync()
    reference = on_cpu(trainer.state()) if verify else None
    trainer.synchronize()
    reset_peak()
    start = time.perf_counter()

    def ms() -> float:
        return (time.perf_counter() - start) * 1e3

    pending = WAYS[way](trainer.state(), folder)
    trainer.synchronize()
    record, steps = {"blocked_ms": ms()}, []
    if pending is not None:
        done = upload(pending)
        while not done.done():
            steps.append(trainer.step())
        done.result()
    record["returned_ms"] = ms()
    os.sync()
    record.update(durable_ms=ms(), bytes=bytes_in(folder), peak_rss_bytes=peak_rss(),
                  steps_meanwhile_ms=[round(step, 2) for step in steps])
    if verify:
        wrong = wrong_tensors(folder, way, reference)
        record.update(tensors=sum(1 for _ in tensors(reference)), wrong_tensors=len(wrong), first_wrong=wrong[:1])
    return record


def tell(**record):
    print(json.dumps(record), flush=True)


def save_several_times(trainer, way, options, end):
    """Stops before a save that would probably end after `end`."""
    folder, longest = os.path.join(options.folder, f"peer-{way}"), 10.0
    for i in range(options.saves):
        start = time.monotonic()
        if start + longest > end:
            return tell(way=way, save=i + 1, skipped=f"{end - start:.0f} s were left, a save takes some {longest:.0f}")
        record = dict(way=way, save=i + 1)
        try:
            record.update(save_once(trainer, way, folder, options.verify))
        except Exception as error:  # a failure is a result
            record["error"] = f"{type(error).__name__}: {error}"[:300]
        shutil.rmtree(folder, ignore_errors=True)
        tell(**record)
        longest = time.monotonic() - start if i == 0 else max(longest, time.monotonic() - start)


def start_process_group(device):
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29511")):
        os.environ.setdefault(name, value)
    if device == "cuda":
        torch.cuda.set_device(0)
        dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1, device_id=torch.device("cuda:0"))
    else:
        dist.init_process_group("gloo", rank=0, world_size=1)


def measure(options):
    end = time.monotonic() + options.limit
    start_process_group(options.device)
    trainer = Trainer(options)
    for _ in range(3):
        trainer.step()
    tell(model=options.model, batch=options.batch, length=options.length, dtype=options.dtype,
         state_bytes=sum(t.nbytes for _, t in tensors(trainer.state())),
         step_ms=statistics.median(trainer.step() for _ in range(10)), torch=torch.__version__,
         device=torch.cuda.get_device_name() if options.device == "cuda" else "cpu")
    for way in options.way:
        save_several_times(trainer, way, options, end)


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--folder", default=".", help="where the saves go (removed again)")
    p.add_argument("--way", nargs="+", default=list(WAYS), choices=WAYS)
    p.add_argument("--saves", type=int, default=3, help="of each way, in a row")
    p.add_argument("--limit", type=float, default=600, help="seconds, behind which no save begins")
    p.add_argument("--verify", action="store_true", help="read each save back and compare it with the requested state")
    p.add_argument("--export", metavar="FILE", help="write the model as TorchScript and its batch, and measure nothing")
    p.add_argument("--model", help="default: bench, on a CPU tiny", choices=MODELS)
    p.add_argument("--dtype", choices=("bf16", "fp16", "fp32"), help="default: bf16, on a CPU fp32")
    p.add_argument("--batch", type=int, help="default: the model's")
    p.add_argument("--length", type=int, help="default: the model's")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = p.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        p.error("no CUDA device (--device cpu shows that it runs)")
    options.model = options.model or ("bench" if options.device == "cuda" else "tiny")
    options.dtype = options.dtype or ("bf16" if options.device == "cuda" else "fp32")
    options.batch = options.batch or MODELS[options.model][2]
    options.length = options.length or MODELS[options.model][3]
    return options


def main():
    warnings.filterwarnings("ignore")
    options = parse_arguments()
    if options.export:
        trainer = Trainer(options)
        return write_model(trainer.model.cpu(), *trainer.batch, options.export)
    measure(options)
    os._exit(0)  # threads and processes of stagers and savers do not end by themselves


if __name__ == "__main__":
    main()
