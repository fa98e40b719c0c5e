"""Compares memtune's losses that never hold all logits with TRL's.

    python check_losses.py --memtune build/release/bin/memtune

The models are tiny decoders of transformers in float32 and bfloat16, with some labels ignored. In Python their last
hidden state goes through trl.kernels.chunked_logprob; memtune trains them with --loss-impl chunked=N and fused. Loss
and gradients must agree in half of their digits. In bfloat16 the difference between TRL and TRL in float32 shows the
effect of rounding on a gradient, and memtune may differ by twice that. `checkpoint:full` and an offloaded run have the
bits of `none`. Without MEMTUNE_NIGHT every fifth run is made, so that each model, dtype and loss has one. Prints a line
for each run and `N passed, N failed`. Exit code 1 on a failure. Needs torch, transformers, safetensors and trl.
"""

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import types

import torch
import transformers

import check_transformers as tiny

# TRL's backward gathers a sharded weight by this function. The other parts of that module need more packages.
utils = types.ModuleType("trl.trainer.utils")
utils.maybe_gather_lm_head_ctx = lambda *_: contextlib.nullcontext()
sys.modules["trl.trainer"] = types.ModuleType("trl.trainer")
sys.modules["trl.trainer.utils"] = utils
from trl.kernels.chunked_logprob import ChunkedLogProbFunction

SHAPE = (3, 47)
CASES = ("llama", "llama-tied", "gemma2", "granite")  # plain, tied head, capped logits, scaled logits
HOWS = ("chunked=1", "chunked=4", "fused")
HALF = {torch.float32: 2 ** -12, torch.bfloat16: 2 ** -4}  # half of the digits, relative to a tensor's largest element


def train_as_trl(folder: str, batch, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).train()
    config = model.config
    hidden = model.model(input_ids=batch["input_ids"], use_cache=False).last_hidden_state
    labels = torch.nn.functional.pad(batch["labels"], (0, 1), value=-100)[..., 1:].reshape(-1)
    counts = labels != -100
    log_probabilities = ChunkedLogProbFunction.apply(
        hidden.reshape(-1, hidden.shape[-1]), model.lm_head.weight, model.lm_head.bias, labels.clamp_min(0), 1.0, 40,
        getattr(config, "final_logit_softcapping", None), 1 / getattr(config, "logits_scaling", 1.0), ())[0]
    loss = -(log_probabilities * counts).sum() / counts.sum()
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}


def apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest element."""
    return ((found.float() - expected.float()).abs().max() / expected.float().abs().max()).item()


def compare(answer, gradients, expected, in_float, dtype: torch.dtype) -> float:
    """The largest difference, relative to the largest element of its tensor."""
    loss, theirs = expected
    for trial in answer["trials"]:
        if trial["outcome"] != "ok" or trial["gradients"]["equal"] is not True:
            raise tiny.Failure(f"{trial['strategy']}: {trial['outcome']} {trial.get('reason', '')}")
    worst = abs(answer["trials"][0]["loss"][0] - loss) / abs(loss)
    if worst > HALF[dtype]:
        raise tiny.Failure(f"the loss differs by {worst:.2g}")
    if sorted(gradients) != sorted(theirs):
        raise tiny.Failure("other parameters")
    for name, gradient in theirs.items():
        ours = torch.frombuffer(bytearray(gradients[name]), dtype=dtype).view(gradient.shape)
        allowed = HALF[dtype] if dtype == torch.float32 else 2 * apart(gradient, in_float[1][name])
        if not apart(ours, gradient) <= allowed:
            raise tiny.Failure(f"the gradient of {name} differs by {apart(ours, gradient):.2g}, more than {allowed:.2g}")
        worst = max(worst, apart(ours, gradient))
    return worst


def check(options, place: str, name: str, dtype: torch.dtype, how: str) -> str:
    folder, inputs = os.path.join(place, "model"), os.path.join(place, "inputs.safetensors")
    batch = tiny.write_batch(inputs, SHAPE)
    tiny.write_model(folder, name, dtype)
    expected, in_float = train_as_trl(folder, batch, dtype), train_as_trl(folder, batch, torch.float32)
    run = os.path.join(place, f"run-{how}")
    answer = tiny.train_by_memtune(options, folder, inputs, run, ("none", "checkpoint:full", "offload:stream"),
                                   ("--loss-impl", how))
    return f"within {compare(answer, tiny.read_reference(run), expected, in_float, dtype):.1g}"


def line_of(options, name: str, dtype: torch.dtype, how: str):
    said = f"{name:12} {str(dtype)[6:]:9} {how:10}"
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        try:
            return True, f"ok   {said}  {check(options, place, name, dtype, how)}"
        except tiny.Failure as failure:
            return False, f"FAIL {said}  {failure}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    options = p.parse_args()
    tiny.prepare_python()
    runs = list(itertools.product(CASES, tiny.DTYPES, HOWS))
    return tiny.tell(line_of(options, *run) for run in (runs if tiny.NIGHT else runs[::5]))


if __name__ == "__main__":
    sys.exit(main())
