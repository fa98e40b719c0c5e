"""Compares the loss of embeddings with sentence-transformers.

    python check_embeddings.py --memtune build/release/bin/memtune [--only bert] [--jobs 2]

Each case is a tiny model with random weights. MultipleNegativesRankingLoss computes the loss of a batch of pairs, and
`memtune sweep --loss embedding` trains on the same batch: from the folder of a decoder, or from the program that
`memtune convert --task embedding` writes of an encoder. Loss and every gradient must be equal bit for bit, also under
checkpointing and offloading. Anchors and positives have different lengths; in the first batch all rows are full, in the
second rows of both columns have padding. Without MEMTUNE_NIGHT or --only, two cases run, one in float32 and one in
bfloat16. Prints a line for each run and `N passed, N failed`. Needs torch, transformers, safetensors and sentence-transformers.
"""

import os
import sys
import tempfile

from check_converted import SMALL, convert
from check_tasks import make_tokenizer
from check_transformers import (CASES as DECODERS, DTYPES, NIGHT, ONE_AT_A_TIME, TINY, Failure, compare, gradients_of,
                                in_one_dtype, options_of, prepare_python, read_reference, tell_all, train_by_memtune)

import sentence_transformers
import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

PAD = TINY["pad_token_id"]
SHAPES = ((3, 16, 24, False), (4, 30, 19, True))  # pairs, length of anchors and of positives, padding
STRATEGIES = ("none", "checkpoint:full", "offload:stream")
ENCODERS = {  # name: model type, settings
    "bert": ("bert", {}), "roberta": ("roberta", {}), "mpnet": ("mpnet", {}), "xlm-roberta": ("xlm-roberta", {}),
    "modernbert": ("modernbert", dict(local_attention=16)), "electra": ("electra", dict(embedding_size=32)),
    "distilbert": ("distilbert", dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48)),
}
CASES = {  # name: model, pooling and whether rows are normalized; no pooling: a plain folder
    **{name: (name, "mean", False) for name in ENCODERS},
    "bert-plain": ("bert", "", False), "bert-first": ("bert", "cls", True), "roberta-normed": ("roberta", "mean", True),
    "qwen3-last": ("qwen3", "lasttoken", True), "qwen3-plain": ("qwen3", "", False),
    "llama-mean": ("llama", "mean", False), "qwen2-first": ("qwen2", "cls", True),
    "gemma2-last": ("gemma2", "lasttoken", False), "mistral-mean": ("mistral", "mean", True),
}
FEW = ("bert-plain", "qwen3-last")


def write_model(folder: str, name: str, dtype: torch.dtype):
    kind, pooling, normalized = CASES[name]
    family, changes = ENCODERS.get(kind) or DECODERS[kind]
    base = SMALL if kind in ENCODERS else {}
    config = transformers.AutoConfig.for_model(family, **{**base, **TINY, **changes})
    torch.manual_seed(len(name))
    whole = kind not in ENCODERS and not pooling
    model = (transformers.AutoModelForCausalLM if whole else transformers.AutoModel).from_config(config)
    with torch.no_grad():  # also parameters that are initialised to ones or zeros
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.to(dtype).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    if pooling:
        modules = [Transformer(folder, model_kwargs={"dtype": dtype}), Pooling(config.hidden_size, pooling)]
        sentence_transformers.SentenceTransformer(modules=modules + [Normalize()] * normalized).save(folder)


def column(rows: int, length: int, padded: bool, left: bool, generator):
    ids = torch.randint(6, TINY["vocab_size"], (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    if padded:
        for row in range(1, rows, 2):
            missing = slice(0, 4 + row) if left else slice(length - 4 - row, length)
            mask[row, missing] = 0
    return {"input_ids": ids.masked_fill(mask == 0, PAD), "attention_mask": mask}


def make_batch(pairs: int, lengths, padded: bool, left: bool):
    generator = torch.Generator().manual_seed(sum(lengths))
    return [column(pairs, length, padded, left, generator) for length in lengths]


def train_in_python(folder: str, dtype: torch.dtype, batch):
    model = sentence_transformers.SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": dtype}).train()
    for parameter in model.parameters():  # as aligned as memtune's, which products of MKL follow
        parameter.data = parameter.data.clone()
    loss = losses.MultipleNegativesRankingLoss(model)([dict(features) for features in batch], None)
    loss.backward()
    return loss.item(), gradients_of(model)


def check(options, name: str, dtype: torch.dtype):
    kind, pooling, _ = CASES[name]
    decoder = kind not in ENCODERS
    with tempfile.TemporaryDirectory(prefix="memtune-check-") as place:
        folder, inputs = os.path.join(place, "model"), os.path.join(place, "inputs.safetensors")
        for pairs, *lengths, padded in SHAPES:
            said = f"embedding {name:16} {str(dtype)[6:]:9} {pairs} x {lengths}{', padded' if padded else ''}"
            try:
                batch = make_batch(pairs, lengths, padded, left=pooling == "lasttoken")
                with ONE_AT_A_TIME:
                    write_model(folder, name, dtype)
                    loss, gradients = train_in_python(folder, dtype, batch)
                model = folder
                if decoder:
                    gradients = {key.replace("0.model.", "model."): value for key, value in gradients.items()}
                else:
                    model = os.path.join(place, "model.pt2")
                    convert(options, folder, dtype, model, "--task", "embedding", *["--padding"] * padded)
                # transformers drops a mask of ones itself.
                save_file({f"{prefix}_{key}": value for prefix, features in zip(("anchor", "positive"), batch)
                           for key, value in features.items() if padded or key != "attention_mask"}, inputs)
                run = os.path.join(place, f"run-{pairs}")
                answer = train_by_memtune(options, model, inputs, run, STRATEGIES, ("--loss", "embedding"))
                yield True, f"ok   {said}  {compare(answer, read_reference(run), (loss, gradients))}"
            except Failure as failure:
                yield False, f"FAIL {said}  {failure}"
            except Exception as error:  # of any kind, from the libraries
                yield False, f"FAIL {said}  {type(error).__name__}: {str(error)[:300]}"


def main() -> int:
    options = options_of(__doc__)
    prepare_python()
    runs = [(name, dtype) for name in CASES if options.only in name for dtype in DTYPES]
    return tell_all(options, check, runs if NIGHT or options.only else in_one_dtype(FEW))


if __name__ == "__main__":
    sys.exit(main())
