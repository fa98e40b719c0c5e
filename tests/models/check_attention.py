"""Compares attention with transformers' in other forms than causal sdpa: eager, windows, packed and padded rows.

    python check_attention.py --memtune build/release/bin/memtune [--only gemma]

The models are tiny decoders as in check_transformers.py. Loss and every gradient must equal Python's bit for bit, also
under `checkpoint:full`. Without MEMTUNE_NIGHT or --only, only the first case of each implementation and kind of rows
runs, with and without changes to the config, in one dtype. Prints a line for each run and `N passed, N failed`. Exit
code 1 on a failure. Needs torch, transformers and safetensors.
"""

import argparse
import os
import sys
import tempfile

import torch
import transformers
from safetensors.torch import save_file

import check_transformers as tiny

WINDOW = {"sliding_window": 8}
FULL_AND_WINDOW = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
# Case of check_transformers.py, changes to its config, attention implementation, and kind of rows.
BATCH, PACKED, PADDED, PADDED_LEFT = "", "packed", "padded", "padded left"
CASES = [
    ("llama", {}, "eager", BATCH), ("llama", {}, "sdpa", PACKED), ("llama-ungrouped", {}, "eager", PACKED),
    ("mistral", WINDOW, "sdpa", BATCH), ("mistral", WINDOW, "eager", BATCH), ("mistral", WINDOW, "sdpa", PACKED),
    ("qwen2", {"use_sliding_window": True, **FULL_AND_WINDOW}, "sdpa", BATCH), ("qwen3", {}, "eager", BATCH),
    ("gemma", {}, "eager", BATCH), ("gemma2", FULL_AND_WINDOW, "sdpa", BATCH), ("gemma2", FULL_AND_WINDOW, "eager", PACKED),
    ("gemma3", {}, "eager", BATCH), ("phi3", {"sliding_window": 16}, "sdpa", BATCH), ("phi3", {}, "eager", PACKED),
    ("granite", {}, "eager", BATCH), ("olmo2", {}, "sdpa", PACKED), ("smollm3", {}, "eager", BATCH),
    ("stablelm", {}, "eager", BATCH), ("starcoder2", {"sliding_window": 8}, "eager", BATCH),
    ("cohere2", {"num_hidden_layers": 2, **FULL_AND_WINDOW}, "sdpa", PACKED), ("glm4", {}, "eager", BATCH),
    ("gpt-neox", {}, "eager", BATCH),
    ("gpt2", {}, "eager", BATCH), ("gpt2", {}, "sdpa", PACKED),
    ("gpt-neox", {}, "sdpa", PACKED), ("mixtral", {"sliding_window": 8}, "sdpa", BATCH), ("qwen3-moe", {}, "eager", PACKED),
    ("llama", {}, "sdpa", PADDED), ("llama", {}, "eager", PADDED), ("llama-ungrouped", {}, "sdpa", PADDED_LEFT),
    ("mistral", WINDOW, "sdpa", PADDED), ("gemma2", FULL_AND_WINDOW, "eager", PADDED), ("gpt2", {}, "sdpa", PADDED),
    ("qwen3-moe", {}, "sdpa", PADDED), ("gpt-neox", {}, "eager", PADDED_LEFT), ("phi3", {}, "sdpa", PADDED),
    ("gpt-bigcode", {}, "eager", BATCH), ("gpt-bigcode", {}, "sdpa", PACKED), ("falcon", {}, "sdpa", PADDED),
    ("gptj", {}, "eager", PACKED), ("gptj", {}, "eager", PADDED), ("codegen", {}, "eager", PACKED),
    ("gpt-neo", {"window_size": 8}, "eager", PACKED), ("gpt-neo", {}, "eager", PADDED),
    ("mpt", {}, "eager", PADDED_LEFT), ("bloom", {}, "eager", PADDED), ("bloom", {}, "eager", PADDED_LEFT),
    ("xglm", {}, "eager", PADDED), ("diffllama", {}, "eager", BATCH), ("diffllama", {}, "sdpa", PACKED),
]


def padding(rows: str):
    """A mask of rows with different ends, or begins. The longest row has no padding."""
    mask = torch.arange(21).unsqueeze(0) < torch.tensor([[14], [21], [9]])
    return (mask if rows == PADDED else mask.flip(1)).long()


def write_batch(path: str, rows: str):
    batch = tiny.write_batch(path, (3, 21))
    if rows == PACKED:
        batch = {name: tensor.reshape(1, -1) for name, tensor in batch.items()}
        batch["position_ids"] = (torch.arange(63) % 21).unsqueeze(0)
    if rows in (PADDED, PADDED_LEFT):
        batch["attention_mask"] = padding(rows)
        batch["labels"] = batch["labels"].masked_fill(batch["attention_mask"] == 0, -100)
    save_file(batch, path)
    return batch


def train_in_python(folder: str, batch, attention: str):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation=attention).train()
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}


def check(options, place: str, case: str, changes, attention: str, rows: str, dtype: torch.dtype) -> str:
    folder, inputs = os.path.join(place, "model"), os.path.join(place, "inputs.safetensors")
    family, differs = tiny.CASES[case]
    tiny.CASES["attention"] = (family, {**differs, **changes})
    batch = write_batch(inputs, rows)
    tiny.write_model(folder, "attention", dtype)
    python = train_in_python(folder, batch, attention)
    run = os.path.join(place, "run")
    answer = tiny.train_by_memtune(options, folder, inputs, run,
                                   more=["--attention", attention] + ["--pack"] * (rows == PACKED))
    return tiny.compare(answer, tiny.read_reference(run), python)


def line_of(options, case, dtype: torch.dtype):
    name, changes, attention, rows = case
    said = f"{name:16} {attention:5} {rows:11} {' '.join(changes):40} {str(dtype)[6:]:9}"
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        try:
            return True, f"ok   {said} {check(options, place, *case, dtype)}"
        except tiny.Failure as failure:
            return False, f"FAIL {said} {failure}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    p.add_argument("--only", default="", help="cases whose name holds this")
    options = p.parse_args()
    tiny.prepare_python()
    runs = tiny.in_one_dtype({(bool(case[1]), *case[2:]): case for case in reversed(CASES)}.values())
    if tiny.NIGHT or options.only:
        runs = [(case, dtype) for case in CASES if options.only in case[0] for dtype in tiny.DTYPES]
    return tiny.tell(line_of(options, *run) for run in runs)


if __name__ == "__main__":
    sys.exit(main())
