"""Compares the losses of post-training with the trainers that they are named after.

    python check_tasks.py --memtune build/release/bin/memtune [--only qwen] [--jobs 2]

Each case is a tiny decoder with random weights. A trainer of TRL computes the loss of a batch with given log
probabilities of other models, and `memtune sweep --loss NAME` trains on the same batch. Loss and every gradient must be
equal bit for bit, also under checkpointing and offloading. The first batch of a task has full rows, the second has
padding. Models are float32, bfloat16, and float32 under autocast to bfloat16. Without MEMTUNE_NIGHT or --only, one case
runs, each task in one of these. Prints a line for each run and `N passed, N failed`. Bytes at the start of backward are compared, peaks are not.
Needs torch, transformers, safetensors, trl and datasets.
"""

import contextlib
import os
import sys
import tempfile
import types

from check_transformers import (NIGHT, ONE_AT_A_TIME, TINY, Failure, compare, live_by_memtune, load_in_python,
                                measure_step, options_of, prepare_python, read_reference, tell_all, train_by_memtune,
                                write_model)

import datasets
import tokenizers
import torch
import transformers
import trl
from safetensors.torch import save_file

# Of check_transformers.py.
CASES = ("llama", "qwen3", "qwen2", "llama-tied", "phi", "gemma2", "granite", "gpt2-dropout")
SHAPES = ((4, 32, False), (6, 47, True))  # rows, length, padding
STRATEGIES = ("none", "checkpoint:full", "offload:stream")
AUTOCAST = "autocast"


def make_rows(rows: int, length: int, padded: bool):
    """Tokens with completions of different lengths at the end, and padding behind them in every second row."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(6, TINY["vocab_size"], (rows, length), generator=generator)
    attention = torch.ones_like(ids)
    completion = torch.zeros_like(ids)
    for row in range(rows):
        completion[row, 5 + row:] = 1
        if padded and row % 2:
            attention[row, length - 4 - row:] = 0
    ids = ids.masked_fill(attention == 0, TINY["pad_token_id"])
    return {"input_ids": ids, "attention_mask": attention, "completion_mask": completion * attention}, generator


def log_probs(shape, generator):
    return -50 * torch.rand(shape, generator=generator)


def batch_of_dpo(rows: int, length: int, padded: bool):
    batch, generator = make_rows(rows, length, padded)
    return batch | {name: log_probs(rows // 2, generator) for name in ("ref_chosen_logps", "ref_rejected_logps")}


def batch_of_kto(rows: int, length: int, padded: bool):
    """The reference models know each token a little less than chance, so that the estimate of KL is positive."""
    batch, generator = make_rows(rows, length, padded)
    others, _ = make_rows(rows, length - 3, padded)
    references = {name: -4.8 * of["completion_mask"].sum(1) - 8 * torch.rand(rows, generator=generator)
                  for name, of in (("ref_logps", batch), ("ref_KL_logps", others))}
    return batch | {f"KL_{name}": value for name, value in others.items()} | references | {
        "label": torch.arange(rows) % 3 != 1}


def batch_of_grpo(rows: int, length: int, padded: bool):
    """Prompts are padded on the left. Only the padded batch has older log probabilities, of which many are clipped."""
    completions = length // 2 - 1
    batch, generator = make_rows(rows, length, padded)
    if padded:
        for row in range(rows):
            batch["attention_mask"][row, :row] = 0
    mask = batch["attention_mask"][:, -completions:].contiguous()
    batch |= {"completion_mask": mask, "advantages": torch.randn(rows, generator=generator),
              "num_items_in_batch": mask.sum() + 7}
    if padded:
        batch["old_per_token_logps"] = torch.rand((rows, completions), generator=generator) - 5
    return batch


def as_grpo_trainer_reads(batch):
    batch = dict(batch)
    completions = batch["completion_mask"].shape[1]
    for name, value in (("ids", batch.pop("input_ids")), ("mask", batch.pop("attention_mask"))):
        batch |= {f"prompt_{name}": value[:, :-completions], f"completion_{name}": value[:, -completions:]}
    return batch


def make_tokenizer():
    words = {f"w{i}": i for i in range(TINY["vocab_size"])}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0")), pad_token="w5",
        eos_token="w2", unk_token="w0")


def make_trainer(kind, config, row, model, folder: str, **more):
    settings = config(output_dir=folder, bf16=False, use_cpu=True, gradient_checkpointing=False, report_to=[],
                      disable_tqdm=True, **more.pop("settings"))
    return kind(model=model, args=settings, train_dataset=datasets.Dataset.from_list([row] * 2),
                processing_class=make_tokenizer(), **more)


def trainer_of_dpo(model, folder: str):
    return make_trainer(trl.DPOTrainer, trl.DPOConfig, {"prompt": "w7 ", "chosen": "w8", "rejected": "w9"}, model,
                        folder, settings={"precompute_ref_log_probs": True})


def trainer_of_kto(model, folder: str):
    return make_trainer(trl.KTOTrainer, trl.KTOConfig, {"prompt": "w7 ", "completion": "w8", "label": True}, model,
                        folder, settings={"precompute_ref_log_probs": True, "per_device_train_batch_size": 2})


def trainer_of_grpo(model, folder: str):
    trainer = make_trainer(trl.GRPOTrainer, trl.GRPOConfig, {"prompt": "w7"}, model, folder, settings={},
                           reward_funcs=lambda completions, **_: [0.0] * len(completions))
    trainer.current_gradient_accumulation_steps = 1
    return trainer


TASKS = {"dpo": (batch_of_dpo, trainer_of_dpo, dict),
         "kto": (batch_of_kto, trainer_of_kto, dict),
         "grpo": (batch_of_grpo, trainer_of_grpo, as_grpo_trainer_reads)}  # batch, trainer, and what that reads


class Trained:
    """A model whose output is the loss of its trainer."""

    def __init__(self, task: str, folder: str, autocast: bool):
        _, make, self.read = TASKS[task]
        self.model = load_in_python(folder)
        self.trainer = make(self.model, os.path.join(folder, "trl"))
        self.model.train()
        self.autocast = autocast
        self.parameters, self.named_parameters = self.model.parameters, self.model.named_parameters
        self.named_buffers = self.model.named_buffers

    def __call__(self, **batch):
        with torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext():
            return types.SimpleNamespace(loss=self.trainer.compute_loss(self.model, self.read(batch)))


def train_in_python(task: str, folder: str, batch, autocast: bool):
    trained = Trained(task, folder, autocast)
    with torch.no_grad():
        trained(**batch)  # buffers that the first call allocates
    trained.model.zero_grad()
    return measure_step(trained, batch)


def compare_live(live: int, held: int, tokens: int) -> str:
    """Python holds the entropy of each token, 4 bytes, and up to two masks that are left out here."""
    if not -24 * tokens - 64 <= live - held <= 64:
        raise Failure(f"{live} bytes at the start of backward, Python's are {held}")
    return f"live bytes {live - held:+}"


def check(options, task: str, name: str, dtype):
    autocast = dtype == AUTOCAST
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, inputs = os.path.join(place, "model"), os.path.join(place, "inputs.safetensors")
        for rows, length, padded in SHAPES:
            said = (f"{task:4} {name:10} {str(dtype).removeprefix('torch.'):9} {rows} rows x {length}"
                    f"{', padded' if padded else ''}")
            try:
                batch = TASKS[task][0](rows, length, padded)
                with ONE_AT_A_TIME:
                    write_model(folder, name, torch.float32 if autocast else dtype)
                    python = train_in_python(task, folder, batch, autocast)
                # transformers drops a mask of ones itself.
                save_file({key: value for key, value in batch.items() if padded or "attention_mask" not in key}, inputs)
                run = os.path.join(place, f"run-{rows}")
                more = ("--loss", task) + (("--autocast", "bf16") if autocast else ())
                answer = train_by_memtune(options, folder, inputs, run, STRATEGIES, more)
                told = compare(answer, read_reference(run), python)
                live = compare_live(live_by_memtune(options, run), python[2][0], rows * length)
                yield True, f"ok   {said}  {told}, {live}"
            except Failure as failure:
                yield False, f"FAIL {said}  {failure}"


def main() -> int:
    options = options_of(__doc__)
    prepare_python()
    dtypes = (torch.float32, torch.bfloat16, AUTOCAST)
    runs = [(task, name, dtype) for task in TASKS for name in CASES if options.only in name for dtype in dtypes]
    if not (NIGHT or options.only):
        runs = [(task, CASES[0], dtype) for task, dtype in zip(TASKS, dtypes, strict=True)]
    return tell_all(options, check, runs)


if __name__ == "__main__":
    sys.exit(main())
