"""Exports models of libraries in Python, trains them there and in memtune, and compares all bits.

    python check_exported.py --memtune build/release/bin/memtune [--library timm] [--only vit] [--jobs 2] [--few]

Each model of exported_models.py is exported in training mode with a dynamic batch (and length) and saved as a .pt2. It
trains for one step at the sizes of the sample and at others. Python trains the exported program, ep.module(), under
the same seed. The loss and every gradient of `none` must equal Python's bit for bit, under the same names. So must
those of three other strategies. --few takes one model of each library; scripts/nightly checks all. Prints a line for
each model and `N passed, N failed`. Exit code 1 on a failure, 2 if a library is missing. Needs torch, torchvision,
transformers, timm and safetensors.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
from safetensors.torch import save_file
from torch.export import Dim
from torch.nn import functional as F

from check_transformers import Failure, compare, read_reference, train_by_memtune
from exported_models import FEW, MODELS, Export

BATCHES = (2, 3)  # that of the sample, and another
STRATEGIES = ("none", "checkpoint:full", "checkpoint:op", "offload:stream,min=0")


def write_program(path: str, export: Export):
    sample = {name: value for name, value in export.inputs(BATCHES[0]).items() if name != "target"}
    sizes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC} if export.sequence else {0: Dim.DYNAMIC}
    program = torch.export.export(export.model.train(), (), sample, dynamic_shapes={name: sizes for name in sample})
    torch.export.save(program, path)
    return program


def loss_of(kind: str, answer, batch):
    """The loss, by its name in memtune."""
    if kind == "returned":
        return answer["loss"]
    first = answer if torch.is_tensor(answer) else answer["logits"]
    if kind == "next_token":
        return F.cross_entropy(first[:, :-1].flatten(0, 1).float(), batch["input_ids"][:, 1:].flatten())
    return F.cross_entropy(first.float(), batch["target"])


def train_in_python(module, kind: str, batch):
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    module.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    answer = module(**{name: value.clone() for name, value in batch.items() if name != "target"})
    loss = loss_of(kind, answer, batch)
    loss.backward()
    with torch.no_grad():  # a step changes the buffers, and the next one must start from those of the file
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])
    gradients = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    return loss.item(), {name: gradient.clone() for name, gradient in gradients.items()}


def check(options, library: str, name: str):
    """Returns a text about the model. Raises Failure."""
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        path, inputs = os.path.join(place, "model.pt2"), os.path.join(place, "inputs.safetensors")
        torch.manual_seed(len(name))
        export = MODELS[library][name]()
        module = write_program(path, export).module(check_guards=False)
        said = []
        for batch in BATCHES:
            torch.manual_seed(batch)
            tensors = {name: value.contiguous() for name, value in export.inputs(batch).items()}
            save_file(tensors, inputs)
            run = os.path.join(place, f"run-{batch}")
            answer = train_by_memtune(options, path, inputs, run, STRATEGIES, ("--loss", export.loss))
            gradients = {name: content for name, content in read_reference(run).items() if content}  # with a gradient
            said.append(compare(answer, gradients, train_in_python(module, export.loss, tensors)))
        return f"{said[0]} at {len(said)} batches"


def line_of(job):
    options, library, name = job
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    start = time.monotonic()
    try:
        good, said = True, check(options, library, name)
    except (Failure, subprocess.TimeoutExpired) as failure:
        good, said = False, str(failure)
    except Exception as error:  # from the export, in any library
        good, said = False, f"{type(error).__name__}: {str(error)[:300]}"
    return good, f"{'ok  ' if good else 'FAIL'} {library:12} {name:24} {time.monotonic() - start:5.1f} s  {said}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    p.add_argument("--library", choices=sorted(MODELS), help="of this one alone")
    p.add_argument("--only", default="", help="models whose name holds this")
    p.add_argument("--few", action="store_true", help="those on which every change is tested")
    p.add_argument("--jobs", type=int, default=2, help="models at a time")
    options = p.parse_args()
    libraries = [options.library] if options.library else sorted(MODELS)
    missing = [library for library in libraries if not MODELS[library]]
    if missing:
        print(f"check_exported.py: {', '.join(missing)} is not installed", file=sys.stderr)
        return 2
    jobs = [(options, library, name) for library in libraries for name in MODELS[library]
            if options.only in name and (not options.few or name in FEW[library])]
    passed = 0
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=8) as pool:
        for good, line in pool.imap(line_of, jobs):
            print(line, flush=True)
            passed += good
    print(f"{passed} passed, {len(jobs) - passed} failed")
    return 0 if jobs and passed == len(jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
