"""Saves the training state on several ranks. Measures the cost, and checks that other numbers of ranks resume from the
same bits.

    python bench/rank_states.py FOLDER                                 # two GPUs
    python bench/rank_states.py FOLDER --ranks 8
    python bench/rank_states.py FOLDER --device cpu --model tiny --seq 64

Costs: `memtune run --save overlapped` compared with the same run without saves. Bits: all ranks, half as many, one, and
on CPUs four resume from each other's states. Their learning rate is 0, so a step does not change the parameters.
Each must save the same numbers as the first, read by torch.distributed.checkpoint. The first run has weights from a
file. The others have none, so a tensor that they fail to load gets other random numbers. Needs transformers.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Dict

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open

HERE = Path(__file__).resolve().parent


def run(options, model, folder: Path, *flags: str) -> Dict:
    answer = folder.with_suffix(".json")
    subprocess.run([*shlex.split(options.memtune), "run", "--model", str(model), "--out", str(folder), "--json", str(answer),
                    *flags], check=True, stdout=subprocess.DEVNULL)
    return json.loads(answer.read_text())


def newest(folder: Path) -> Path:
    return max((folder / "states").glob("step-*"))


def parameters(state: Path, like: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """Parameters as rows of bytes. Several ranks save rows of numbers."""
    several = len(list(state.glob("*.safetensors"))) > 1
    tensors = {name: torch.empty_like(tensor.flatten() if several else tensor) for name, tensor in like.items()}
    dcp.load(tensors, storage_reader=dcp.HuggingFaceStorageReader(str(state)))
    return {name: tensor.flatten().view(torch.uint8) for name, tensor in tensors.items()}


def costs(options):
    size = ["--device", options.device, "--ranks", str(options.ranks), "--batch", str(options.batch), "--seq", str(options.seq), "--steps",
            "64"]
    never = run(options, options.model, options.folder / "never", *size)
    saved = run(options, options.model, options.folder / "saved", *size, "--save", "overlapped", "--save-every", "30",
                "--keep-last", "2")
    assert saved["loss"] == never["loss"], "saves changed the losses"
    ms = [statistics.median(answer["times_ms"][4:]) for answer in (never, saved)]
    for save in saved["saves"]:
        print(f"step {save['step']}: blocked {save['blocked_ms']:.2f} ms, durable {save['durable_ms']:.0f} ms, "
              f"{save['bytes'] / 1e9:.2f} GB {save.get('error', '')}")
    print(f"steps {ms[1]:.1f} ms, without saves {ms[0]:.1f}; host memory of a rank {saved['save_host_bytes'] / 1e9:.2f} GB; "
          "losses equal")


def models(folder: Path):
    """The model with weights, and without."""
    import transformers
    config = transformers.LlamaConfig(hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=4096)
    config.save_pretrained(folder / "drawn")
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "weights")
    return folder / "weights", folder / "drawn"


def bits(options):
    flags = ["--batch", "1", "--seq", "64", "--dtype", "fp32", "--lr", "0", "--optimizer", "sgd", "--save", "sync",
             "--save-every", "2", "--keep-last", "1"]
    weights, drawn = models(options.folder)
    run(options, drawn, options.folder / "drawn-alone", *flags, "--device", options.device, "--ranks", str(options.ranks),
        "--steps", "2")
    states = []
    fewer = [options.ranks // 2] if options.ranks > 2 else []
    series = [(options.device, ranks) for ranks in (options.ranks, *fewer, 1)] + [("cpu", 4), (options.device, options.ranks)]
    for i, (device, ranks) in enumerate(series):
        folder = options.folder / f"on-{ranks}-{device}-{i}"
        if states:
            shutil.copytree(states[-1].parent.parent, folder)
        run(options, drawn if states else weights, folder, *flags, "--device", device, "--ranks", str(ranks), "--steps",
            str(2 * (i + 1)), *(["--resume"] if states else []))
        states.append(newest(folder))
    with safe_open(str(weights / "model.safetensors"), "pt") as file:
        like = {name: file.get_tensor(name) for name in file.keys()}
    first = {name: tensor.flatten().view(torch.uint8) for name, tensor in like.items()}
    numbers = sum(tensor.numel() for tensor in like.values())

    def differing(state: Path):
        other = parameters(state, like)
        return [name for name in first if not torch.equal(first[name], other[name])]

    matrices = {name for name, tensor in like.items() if tensor.dim() > 1}  # norms are always initialised to ones
    assert set(differing(newest(options.folder / "drawn-alone"))) == matrices, "what is not loaded would not be seen"
    for state in states:
        different = differing(state)
        print(f"{state.parent.parent.name}: {len(first) - len(different)} of {len(first)} parameters, {numbers / 1e6:.0f} M "
              f"numbers, with the bits of the file")
        assert not different, different[:3]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--model", default="llama-1b")
    p.add_argument("--only", choices=("costs", "bits"))
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--seq", type=int, default=2048)
    options = p.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.only != "bits":
        costs(options)
    if options.only != "costs":
        bits(options)


if __name__ == "__main__":
    main()
