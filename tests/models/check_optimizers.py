"""Compares memtune's optimizers with the originals of the same name, after 20 steps, or 2 in bfloat16.

    python check_optimizers.py --memtune build/release/bin/memtune

`memtune run` trains a tiny Llama of transformers and saves its state. Python trains it with bitsandbytes and
transformers' Adafactor on the same batch. Both clip gradients. Scales must be equal within rounding. Moments of 8 bits
must be equal except for a few between two codes, and parameters except for as few with such moments. The states of each
parameter, their dtypes and sizes must be equal. Prints a line for each optimizer and `N passed, N failed`. Exit code 1
on a failure. Needs torch, transformers, safetensors and bitsandbytes.
"""

import argparse
import glob
import os
import subprocess
import sys
import tempfile

import bitsandbytes
import bitsandbytes.backends.cpu.ops
import torch
import transformers
from safetensors.torch import load_file

import check_transformers as tiny

STEPS, RATE, NORM = 20, 1e-5, 0.5  # updates so small that the difference of one does not grow in later steps
SIZES = {"hidden_size": 64, "intermediate_size": 96}  # so that some parameters have at least 4096 elements, some fewer
NEAR, EDGE = 1e-4, 0.001  # a share EDGE of all 8-bit values may differ by more than NEAR of their scale
AWAY = 0.05  # allowed difference of a parameter, in update steps for each step

# On a CPU bitsandbytes rounds float32 by a table. 0.15 % of the codes are not the nearest, and Adam takes large steps
# if a second moment becomes 0. For other dtypes it takes the nearest code, like its CUDA kernels.
def quantize(values, code, scales, codes, block):
    found, largest = torch.ops.bitsandbytes.quantize_blockwise(values.double(), code, block)
    codes.copy_(found)
    scales.copy_(largest)


bitsandbytes.backends.cpu.ops._quant_blockwise_fp32_direct = quantize


def adafactor(model, rate: float):
    return transformers.optimization.Adafactor(model.parameters(), lr=rate, scale_parameter=False,
                                               relative_step=False)


def of_bitsandbytes(kind):
    return lambda model, rate: kind(model.parameters(), lr=rate, weight_decay=0.01)


def in_8_bits(model, rate: float):
    """The optimizer of transformers' Trainer. Embeddings keep states of 32 bits."""
    optimizer = of_bitsandbytes(bitsandbytes.optim.AdamW8bit)(model, rate)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            override = {"optim_bits": 32}
            bitsandbytes.optim.GlobalOptimManager.get_instance().register_module_override(module, "weight", override)
    return optimizer


OPTIMIZERS = {"adamw_8bit": in_8_bits,
              "adamw_32bit": of_bitsandbytes(bitsandbytes.optim.AdamW32bit),
              "paged_adamw_8bit": in_8_bits,
              "paged_adamw_32bit": of_bitsandbytes(bitsandbytes.optim.AdamW32bit),
              "adafactor": adafactor}
# With parameters in bfloat16, which smaller updates hardly change: rate and steps. Differences in rounding grow from step to
# step, on some processors to several percent after 20.
NARROW = {"adamw_32bit": (1e-3, 2)}
KEPT = ("state1", "state2", "absmax1", "absmax2", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")


def train_in_python(folder: str, batch, make, rate: float, steps: int):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").train()
    optimizer = make(model, rate)
    for _ in range(steps):
        model(**batch, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
        optimizer.step()
        optimizer.zero_grad()
    parameters = dict(model.named_parameters())
    state = {f"{name}.{key}": value for name, parameter in parameters.items()
             for key, value in optimizer.state[parameter].items() if key in KEPT}
    return parameters, state


def train_by_memtune(options, folder: str, inputs: str, out: str, optimizer: str, rate: float, steps: int):
    command = [options.memtune, "run", "--model", folder, "--inputs", inputs, "--device", "cpu", "--strategy", "none",
               "--optimizer", optimizer, "--lr", str(rate), "--max-grad-norm", str(NORM), "--steps", str(steps),
               "--save-every", str(steps), "--save", "sync", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise tiny.Failure(f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    file, = glob.glob(os.path.join(out, "states", f"step-{steps:08}", "*.safetensors"))
    return load_file(file)


def values_of(state, name: str) -> torch.Tensor:
    """Decodes moments of 8 bits, in units of their block's scale."""
    codes = state[name].view(-1).int()
    return bitsandbytes.functional.create_dynamic_map(signed=name.endswith("state1"))[codes]


def compare(ours, parameters, state, rate: float, steps_taken: int) -> str:
    kept = {name[len("optimizer."):]: value for name, value in ours.items()
            if name.startswith("optimizer.") and not name.endswith(".step")}
    if sorted(kept) != sorted(state):
        raise tiny.Failure(f"kept is {sorted(set(kept) ^ set(state))[:4]} in one of both")
    codes = moved = 0
    for name, theirs in state.items():
        mine = kept[name]
        if mine.dtype != theirs.dtype or mine.numel() != theirs.numel():
            raise tiny.Failure(f"{name} is {mine.dtype} [{mine.numel()}], theirs {theirs.dtype} [{theirs.numel()}]")
        if mine.dtype == torch.uint8:
            scales = state[name.replace("state", "absmax")].repeat_interleave(256)[:mine.numel()]
            apart = (values_of(kept, name) - values_of(state, name)).abs()[scales > 0]
            codes, moved = codes + apart.numel(), moved + int((apart > NEAR).sum())
        elif (mine.view(-1) - theirs.view(-1)).abs().max() > 1e-3 * theirs.abs().max():
            raise tiny.Failure(f"{name} differs by {(mine.view(-1) - theirs.view(-1)).abs().max():.2g}")
    if moved > EDGE * codes:
        raise tiny.Failure(f"{moved} of {codes} values differ")
    # A second moment between two codes near 0 gives a step of another size if it is rounded to the other code.
    in_8_bits = {name[:-len(".state1")] for name, value in state.items() if value.dtype == torch.uint8}
    apart = {name: (ours[name] - value.detach()).abs() / rate for name, value in parameters.items()}
    for name, steps in apart.items():
        away = int((steps > AWAY * steps_taken).sum())
        if away > (EDGE * steps.numel() if name in in_8_bits else 0):
            raise tiny.Failure(f"{away} of {steps.numel()} numbers of {name} are more than {AWAY * steps_taken:g} steps away")
    worst = max(steps.max().item() for steps in apart.values())
    return f"{moved} of {codes} values of 8 bits differ, parameters by {worst:.2g} steps"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    options = p.parse_args()
    tiny.prepare_python()
    tiny.CASES["llama-wider"] = ("llama", SIZES)
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, narrow = os.path.join(place, "model"), os.path.join(place, "narrow")
        inputs = os.path.join(place, "inputs.safetensors")
        batch = tiny.write_batch(inputs, (2, 32))
        tiny.write_model(folder, "llama-wider", torch.float32)
        tiny.write_model(narrow, "llama-wider", torch.bfloat16)

        def line_of(name: str):
            model = narrow if name in NARROW else folder
            rate, steps = NARROW.get(name, (RATE, STEPS))
            try:
                ours = train_by_memtune(options, model, inputs, os.path.join(place, name), name, rate, steps)
                theirs = train_in_python(model, batch, OPTIMIZERS[name], rate, steps)
                return True, f"ok   {name:18} {compare(ours, *theirs, rate, steps)}"
            except tiny.Failure as failure:
                return False, f"FAIL {name:18} {failure}"

        return tiny.tell(map(line_of, OPTIMIZERS))


if __name__ == "__main__":
    sys.exit(main())
