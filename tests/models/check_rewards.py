"""Compares classifiers of decoders with transformers, and the loss of reward models with TRL's trainer.

    python check_rewards.py --memtune build/release/bin/memtune [--only qwen] [--jobs 2]

Each case is a tiny decoder of check_transformers.py, or an encoder, with random weights, as a class
...ForSequenceClassification. Two runs train on the same batches:

  classes  the class's own loss of three labels, or of one number, and `memtune sweep` on the folder
  reward   TRL's RewardTrainer, and `memtune sweep --loss reward`; for encoders on a program of `memtune convert`

Loss and every gradient must be equal bit for bit, also under checkpointing and offloading. The first batch has full
rows and no margin, the second has padding and a margin for each pair. Without MEMTUNE_NIGHT or --only, one case of
either kind runs, in one dtype. Prints a line for each run and `N passed, N failed`. Needs torch, transformers, safetensors, trl and datasets.
"""

import os
import sys
import tempfile

from check_converted import SMALL, convert
from check_tasks import make_tokenizer
from check_transformers import (CASES, DTYPES, NIGHT, ONE_AT_A_TIME, TINY, Failure, compare, gradients_of, in_one_dtype,
                                options_of, prepare_python, read_reference, tell_all, train_by_memtune)

import datasets
import torch
import transformers
import trl
from safetensors.torch import save_file

REWARDS = ("llama", "qwen2", "qwen3", "gemma2", "mistral", "phi3", "gpt2", "llama-ungrouped")
OF_TINY = {**SMALL, **TINY}
ENCODERS = {"bert": ("bert", OF_TINY), "modernbert": ("modernbert", OF_TINY)}  # by memtune convert --task reward
CLASSIFIERS = (
    "llama", "mistral", "ministral", "ministral3", "helium", "seed-oss", "arcee", "hunyuan", "nemotron", "phi",
    "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "olmo", "olmo2", "olmo3", "exaone4", "smollm3", "glm4",
    "glm", "stablelm", "starcoder2", "persimmon", "diffllama", "mixtral", "phimoe", "qwen2-moe", "qwen3-moe",
    "gpt-oss", "deepseek-v3", "deepseek-v2", "hunyuan-moe", "qwen3-next", "gpt-neox", "opt", "gpt2", "gpt-bigcode",
    "falcon", "gptj", "gpt-neo", "mpt", "bloom")
WITHOUT_PADDING = {"qwen3-next"}  # memtune refuses it
SHAPES = ((4, 32, False), (6, 47, True))  # rows, length, padding
STRATEGIES = ("none", "checkpoint:full", "offload:stream")


def write_model(folder: str, name: str, dtype: torch.dtype, labels: int):
    family, changes = ENCODERS.get(name) or CASES[name]
    config = transformers.AutoConfig.for_model(family, **{**TINY, **changes, "num_labels": labels})
    torch.manual_seed(len(name))
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():  # also parameters that are initialised to ones or zeros
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.to(dtype).save_pretrained(folder)


def load_in_python(folder: str):
    """With weights as aligned as memtune's, which products of MKL follow."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype="auto").train()
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model


def make_batch(rows: int, length: int, padded: bool):
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(6, TINY["vocab_size"], (rows, length), generator=generator)
    attention = torch.ones_like(ids)
    if padded:
        for row in range(1, rows, 2):
            attention[row, length - 4 - row:] = 0
    return {"input_ids": ids.masked_fill(attention == 0, TINY["pad_token_id"]), "attention_mask": attention}


def classes_in_python(folder: str, batch):
    model = load_in_python(folder)
    torch.manual_seed(0)
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    return loss.item(), gradients_of(model)


def reward_in_python(folder: str, batch):
    model = load_in_python(folder)
    rows = datasets.Dataset.from_list([{"chosen": "w8", "rejected": "w9"}] * 2)
    settings = trl.RewardConfig(output_dir=os.path.join(folder, "trl"), bf16=False, use_cpu=True,
                                gradient_checkpointing=False, report_to=[], disable_tqdm=True)
    trainer = trl.RewardTrainer(model=model, args=settings, train_dataset=rows, processing_class=make_tokenizer())
    model.train()
    model.zero_grad()
    loss = trainer.compute_loss(model, dict(batch))
    loss.backward()
    return loss.item(), gradients_of(model)


def labels_of(task: str, rows: int, padded: bool, dtype: torch.dtype):
    """Beside the tokens."""
    generator = torch.Generator().manual_seed(rows)
    if task == "reward":
        return {"margin": 3 * torch.rand(rows // 2, generator=generator)} if padded else {}
    if task == "number":
        return {"labels": torch.randn(rows, generator=generator).to(dtype)}
    return {"labels": torch.randint(0, 3, (rows,), generator=generator)}


def check(options, task: str, name: str, dtype: torch.dtype):
    train_in_python = reward_in_python if task == "reward" else classes_in_python
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, inputs = os.path.join(place, "model"), os.path.join(place, "inputs.safetensors")
        for rows, length, padded in SHAPES[:1] if name in WITHOUT_PADDING else SHAPES:
            said = f"{task:7} {name:16} {str(dtype)[6:]:9} {rows} x {length}{', padded' if padded else ''}"
            try:
                batch = {**make_batch(rows, length, padded), **labels_of(task, rows, padded, dtype)}
                with ONE_AT_A_TIME:
                    write_model(folder, name, dtype, 3 if task == "classes" else 1)
                    python = train_in_python(folder, batch)
                # transformers drops a mask of ones itself.
                save_file({key: value for key, value in batch.items() if padded or key != "attention_mask"}, inputs)
                run = os.path.join(place, f"run-{rows}")
                more = ("--loss", "reward") if task == "reward" else ()
                model = os.path.join(place, "model.pt2") if name in ENCODERS else folder
                if name in ENCODERS:
                    convert(options, folder, dtype, model, "--task", "reward", *["--padding"] * padded)
                answer = train_by_memtune(options, model, inputs, run, STRATEGIES, more)
                yield True, f"ok   {said}  {compare(answer, read_reference(run), python)}"
            except Failure as failure:
                yield False, f"FAIL {said}  {failure}"
            except Exception as error:  # of any kind, from transformers
                yield False, f"FAIL {said}  {type(error).__name__}: {str(error)[:300]}"


def main() -> int:
    options = options_of(__doc__)
    prepare_python()
    datasets.disable_progress_bars()
    cases = [("reward", name) for name in (*REWARDS, *ENCODERS)] + [("number", name) for name in REWARDS[:4]]
    cases += [("classes", name) for name in CLASSIFIERS]
    runs = [(case, dtype) for case in cases if options.only in " ".join(case) for dtype in DTYPES]
    if not (NIGHT or options.only):
        runs = in_one_dtype([("reward", "llama"), ("classes", "qwen2")])
    return tell_all(options, check, [(*case, dtype) for case, dtype in runs])


if __name__ == "__main__":
    sys.exit(main())
