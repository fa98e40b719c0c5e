"""Exports the models of the zoo and computes their expected results in Python. make_models.py is the program."""

import concurrent.futures
import copy
import ctypes
import hashlib
import importlib
import inspect
import json
import multiprocessing
import os
import sys
import time
import zipfile
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import MODELS, Model

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from safetensors_file import save_safetensors  # noqa: E402

# The models on which every change is tested. Tests of tests/e2e need some of them.
FEW = ("in_place", "everything", "llama", "gpt_tied", "resnet18", "hf_gpt2_plain")
FEW_OF_ZOO = ("tv_mobilenet_v2", "hf_deberta-v2")
SEED = 0
THREADS = 2


def loss_of(kind: str, output: Tensor, inputs: Dict[str, Tensor]) -> Tensor:
    """The losses, with memtune's definitions."""
    target = inputs.get("labels", inputs.get("target"))
    if kind == "next_token":
        if target is None:
            target = next(t for t in inputs.values() if not t.is_floating_point())
        return F.cross_entropy(output[:, :-1].flatten(0, 1).float(), target[:, 1:].flatten())
    if kind == "cross_entropy":
        return F.cross_entropy(output.float(), target)
    if kind == "mse":
        return F.mse_loss(output.float(), target.float())
    return output


def checksums(gradients: Dict[str, Optional[Tensor]]) -> Dict[str, Optional[str]]:
    """SHA-256 of the bytes, in the order of the indices."""
    def checksum(gradient: Tensor) -> str:
        gradient = gradient.contiguous()
        return hashlib.sha256(ctypes.string_at(gradient.data_ptr(), gradient.nbytes)).hexdigest()
    return {name: None if g is None else checksum(g) for name, g in gradients.items()}


def train_once(module: nn.Module, loss_kind: str, arguments, inputs):
    """Loss and gradients of one forward and backward. The seed is set just before forward."""
    module.train()
    torch.manual_seed(SEED)
    loss = loss_of(loss_kind, module(*arguments), inputs)
    loss.backward()
    return loss.item(), {name: p.grad for name, p in module.named_parameters() if p.requires_grad}


def differing(a: Dict[str, Optional[Tensor]], b: Dict[str, Optional[Tensor]]):
    """Names of the gradients that are not equal bit for bit."""
    return [name for name in sorted({*a, *b})
            if (a.get(name) is None) != (b.get(name) is None)
            or a.get(name) is not None and not torch.equal(a[name], b[name])]


def export(module: nn.Module, kind: str, arguments, path: str):
    # Exports a copy, because tracing runs the model once and updates batch-norm statistics.
    module = copy.deepcopy(module).train()
    if kind == "script":
        torch.jit.script(module).save(path)
    else:
        torch.jit.trace(module, arguments, check_trace=False).save(path)


def write_model(model: Model, kind: str, out: str) -> dict:
    """Writes one folder and returns its entry of the index. Raises torch's error if the model cannot be exported."""
    torch.manual_seed(SEED)
    module, inputs = model.build()
    names = [name for name in inspect.signature(module.forward).parameters if name in inputs]
    arguments = tuple(inputs[name] for name in names)
    folder = f"{model.name}_{kind}"
    os.makedirs(os.path.join(out, folder), exist_ok=True)
    path = os.path.join(out, folder, "model.pt")
    export(module, kind, arguments, path)
    save_safetensors(inputs, os.path.join(out, folder, "inputs.safetensors"))

    loss, gradients = train_once(module, model.loss, arguments, inputs)
    with torch.jit.optimized_execution(False):  # optimized graphs sum gradients in another order
        loss_loaded, gradients_loaded = train_once(torch.jit.load(path), model.loss, arguments, inputs)
    unequal = differing(gradients, gradients_loaded)
    expected = {"loss": loss, "loss_kind": model.loss, "deterministic": model.deterministic,
                "gradients": checksums(gradients),
                "torchscript": {"loss": loss_loaded, "equal": loss == loss_loaded and not unequal,
                                "unequal_gradients": unequal, "gradients": checksums(gradients_loaded)},
                "arguments": names, "torch": torch.__version__}
    with open(os.path.join(out, folder, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)
    return {"name": folder, "kind": kind, "file": f"{folder}/model.pt", "inputs": f"{folder}/inputs.safetensors",
            "expected": f"{folder}/expected.json", "loss_kind": model.loss, "deterministic": model.deterministic,
            "seed": SEED, "threads": THREADS, "torchscript_equal": expected["torchscript"]["equal"],
            "tags": list(model.tags)}


class TakesAList(nn.Module):
    """Takes images of several sizes, like detection models."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, images: List[Tensor]) -> Tensor:
        return self.linear(torch.cat(images))


def write_bad_files(out: str, good: str) -> Dict[str, str]:
    """Writes files that are not TorchScript, or that memtune cannot train. Returns {path: problem}."""
    folder = os.path.join(out, "bad")
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(os.path.join(folder, "other_zip.pt"), "w") as archive:
        archive.writestr("readme.txt", "this is no model\n")
    with open(good, "rb") as source, open(os.path.join(folder, "cut.pt"), "wb") as file:
        data = source.read()
        file.write(data[:len(data) * 6 // 10])
    linear = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    torch.save(linear.state_dict(), os.path.join(folder, "state_dict.pt"))
    torch.jit.freeze(torch.jit.script(linear.eval())).save(os.path.join(folder, "frozen.pt"))
    torch.jit.script(TakesAList()).save(os.path.join(folder, "list_script.pt"))
    torch.jit.trace(TakesAList(), ([torch.ones(2, 4), torch.ones(3, 4)],)).save(os.path.join(folder, "list_trace.pt"))
    return {"bad/other_zip.pt": "a zip without TorchScript", "bad/cut.pt": "the first 60 % of a TorchScript file",
            "bad/state_dict.pt": "torch.save of a state_dict", "bad/frozen.pt": "torch.jit.freeze: no parameters",
            "bad/list_script.pt": "its input is a list of tensors", "bad/list_trace.pt": "the same, traced"}


def register_models(zoo: bool, few: bool) -> List[str]:
    """Fills MODELS. Returns the libraries that are not installed."""
    if not zoo:
        importlib.import_module("own_models")
        return importlib.import_module("library_models").MISSING
    missing = []
    for library in ("torchvision", "transformers", "timm", "torchaudio")[:2 if few else 4]:
        try:
            importlib.import_module(f"zoo_{library}")
        except ModuleNotFoundError as error:
            if error.name != library:
                raise
            missing.append(library)
    return missing


def try_to_write(model: Model, kind: str, out: str) -> Tuple[Optional[dict], Optional[dict]]:
    """Returns the model's entry of the index, or the reason why it was not exported."""
    torch.set_num_threads(THREADS)
    start = time.perf_counter()
    entry = failure = None
    note = ""
    try:
        entry = write_model(model, kind, out)
        note = "" if entry["torchscript_equal"] else "  (TorchScript differs from eager)"
    except Exception as error:  # a model that this torch cannot export: listed, not fatal by itself
        failure = {"name": model.name, "kind": kind, "error": f"{type(error).__name__}: {error}"[:400]}
        note = f"  NOT EXPORTED: {' '.join(failure['error'].split())[:160]}"
    print(f"{model.name}_{kind}  {time.perf_counter() - start:.1f} s{note}", flush=True)
    return entry, failure


def write_number(i: int, out: str):
    return try_to_write(*[(m, kind) for m in MODELS for kind in m.kinds][i], out)


def write_all(out: str, only: str, zoo: bool, few: bool, jobs: int) -> dict:
    """Writes every model with `only` in its name, and the bad files. Returns the index. SystemExit without a model."""
    missing = register_models(zoo, few)
    os.makedirs(out, exist_ok=True)
    wanted = [i for i, m in enumerate([m for m in MODELS for _ in m.kinds])
              if only in m.name and (not few or m.name in (FEW_OF_ZOO if zoo else FEW))]
    if not wanted:
        raise SystemExit(f"make_models.py: no model's name holds '{only}'; known: {', '.join(m.name for m in MODELS)}")
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        results = list(pool.map(write_number, wanted, [out] * len(wanted)))
    models = [entry for entry, _ in results if entry]
    bad = write_bad_files(out, os.path.join(out, models[0]["file"])) if models else {}
    return {"models": models, "not_exported": [failure for _, failure in results if failure], "bad": bad,
            "missing_libraries": missing}
