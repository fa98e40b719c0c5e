"""Compares the losses of post-training with the trainers that they are named after.

    python check_tasks.py --memtune build/release/bin/memtune [--only qwen] [--jobs 2]

Each case is a tiny decoder with random weights. TRL's DPOTrainer computes the loss of a batch of pairs with given log
probabilities of the reference model, and `memtune sweep --loss dpo` trains on the same batch. Loss and every gradient
must be equal bit for bit, also under checkpointing and offloading. The first batch has full rows, the second has
padding. Without MEMTUNE_NIGHT or --only, one case runs. Prints a line for each run and `N passed, N failed`. Needs
torch, transformers, safetensors, trl and datasets. Peaks are not compared.
"""

import os
import sys
import tempfile

from check_transformers import (NIGHT, ONE_AT_A_TIME, TINY, Failure, compare, gradients_of,
                                load_in_python, options_of, prepare_python, read_reference, tell_all, train_by_memtune,
                                write_model)

import datasets
import tokenizers
import torch
import transformers
import trl
from safetensors.torch import save_file

CASES = ("llama", "qwen3", "qwen2", "llama-tied", "phi", "gemma2", "granite")  # of check_transformers.py
SHAPES = ((2, 32, False), (3, 47, True))  # pairs, length, padding
STRATEGIES = ("none", "checkpoint:full", "offload:stream")


def make_batch(pairs: int, length: int, padded: bool):
    generator = torch.Generator().manual_seed(length)
    rows = 2 * pairs
    ids = torch.randint(6, TINY["vocab_size"], (rows, length), generator=generator)
    attention = torch.ones_like(ids)
    completion = torch.zeros_like(ids)
    for row in range(rows):
        completion[row, 5 + row:] = 1
        if padded and row % 2:
            attention[row, length - 4 - row:] = 0
    completion *= attention
    ids = ids.masked_fill(attention == 0, TINY["pad_token_id"])
    logps = {name: -50 * torch.rand(pairs, generator=generator) for name in ("ref_chosen_logps", "ref_rejected_logps")}
    return {"input_ids": ids, "attention_mask": attention, "completion_mask": completion, **logps}


def make_trainer(model, folder: str):
    words = {f"w{i}": i for i in range(TINY["vocab_size"])}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0")), pad_token="w5",
        eos_token="w2", unk_token="w0")
    rows = datasets.Dataset.from_list([{"prompt": "w7 ", "chosen": "w8", "rejected": "w9"}] * 2)
    settings = trl.DPOConfig(output_dir=folder, bf16=False, use_cpu=True, gradient_checkpointing=False, report_to=[],
                             precompute_ref_log_probs=True, disable_tqdm=True)
    return trl.DPOTrainer(model=model, args=settings, train_dataset=rows, processing_class=tokenizer)


def train_in_python(folder: str, batch):
    model = load_in_python(folder)
    trainer = make_trainer(model, os.path.join(folder, "trl"))
    model.train()
    model.zero_grad()
    loss = trainer.compute_loss(model, dict(batch))
    loss.backward()
    return loss.item(), gradients_of(model)


def check(options, name: str, dtype: torch.dtype):
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, inputs = os.path.join(place, "model"), os.path.join(place, "inputs.safetensors")
        for pairs, length, padded in SHAPES:
            said = f"dpo {name:10} {str(dtype)[6:]:9} {pairs} pairs x {length}{', padded' if padded else ''}"
            try:
                batch = make_batch(pairs, length, padded)
                with ONE_AT_A_TIME:
                    write_model(folder, name, dtype)
                    python = train_in_python(folder, batch)
                # transformers drops a mask of ones itself.
                save_file({key: value for key, value in batch.items() if padded or key != "attention_mask"}, inputs)
                run = os.path.join(place, f"run-{pairs}")
                answer = train_by_memtune(options, folder, inputs, run, STRATEGIES, ("--loss", "dpo"))
                yield True, f"ok   {said}  {compare(answer, read_reference(run), python)}"
            except Failure as failure:
                yield False, f"FAIL {said}  {failure}"


def main() -> int:
    options = options_of(__doc__)
    prepare_python()
    names = [name for name in CASES if options.only in name]
    runs = [(name, dtype) for name in (names if NIGHT or options.only else names[:1])
            for dtype in (torch.float32, torch.bfloat16)]
    return tell_all(options, check, runs)


if __name__ == "__main__":
    sys.exit(main())
