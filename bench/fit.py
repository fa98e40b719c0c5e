"""Compares what `memtune fit` predicts with what `memtune sweep` measures.

    python3 bench/fit.py measure MEMTUNE OUT.json                  # on the GPU of the card; --only NAME for one
    python3 bench/fit.py predict MEMTUNE OUT.json [--card h200]    # anywhere
    python3 bench/fit.py recommend MEMTUNE OUT.json --card rtx4090 # anywhere
    python3 bench/fit.py capped MEMTUNE OUT.json --recommended FILE  # on a larger GPU

The first two write bytes and milliseconds of each training and strategy. bench/figures.py makes a table of the two files,
and tests/e2e/fit_test.py compares them. The others run what `fit` recommends for the memory of a card, and for less where
that card needs no strategy, with PyTorch limited to that memory.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIGS = Path(__file__).resolve().parent / "configs"
PROFILES = CONFIGS.parents[1] / "profiles/machines"
LESS = 0.6
EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
STRATEGIES = ["none", "checkpoint:full", "checkpoint:cheap", "offload:stream"]
BF16 = ["--dtype", "bf16", "--loss", "causal_lm"]
AUTOCAST = ["--dtype", "float32", "--autocast", "bf16", "--loss", "causal_lm"]
CHUNKED = ["--loss-impl", "chunked=8"]
CONVERTED = ["--loss", "returned"]
LORA = ["--lora", "r=16,alpha=32"]
# name: config, batch, sequence, flags
TRAININGS = {
    "Llama 3.2 1B": ("llama-3.2-1b", 2, 2048, BF16),
    "Llama 3.2 1B, chunked loss": ("llama-3.2-1b", 1, 4096, BF16 + CHUNKED),
    "Llama 3.2 1B, LoRA": ("llama-3.2-1b", 2, 2048, BF16 + LORA),
    "Llama 3.2 1B, QLoRA": ("llama-3.2-1b", 2, 2048, BF16 + LORA + ["--load-in", "4bit"]),
    "GPT-2 medium": ("gpt2-medium", 4, 1024, BF16),
    "Gemma 3 1B": ("gemma-3-1b", 2, 2048, BF16),
    "Qwen3 4B, chunked loss": ("qwen3-4b", 1, 2048, BF16 + CHUNKED),
    "Gemma 3 1B, clipped": ("gemma-3-1b", 1, 1024, BF16 + ["--max-grad-norm", "1"]),
    "GPT-2 medium, two micro-batches": ("gpt2-medium", 8, 512, BF16 + ["--accumulate", "2"]),
    "Qwen3 MoE": ("qwen3-moe", 1, 1024, BF16),
    "GPT-2 medium, autocast": ("gpt2-medium", 4, 1024, AUTOCAST),
    "Llama 3.2 1B, QLoRA, autocast, 8-bit AdamW": ("llama-3.2-1b", 2, 2048, BF16 + LORA + [
        "--load-in", "4bit", "--autocast", "bf16", "--optimizer", "adamw_8bit"]),
    "Gemma 3 1B, autocast, Adafactor": ("gemma-3-1b", 1, 2048, [*AUTOCAST, "--optimizer", "adafactor"]),
    "Llama 3.2 1B, 8-bit AdamW": ("llama-3.2-1b", 1, 2048, BF16 + CHUNKED + ["--optimizer", "adamw_8bit"]),
    # Of images, and encoders: `memtune convert` makes a program of the config first, as a user would.
    "ViT-L": ("vit-l", 64, None, CONVERTED),
    "ConvNeXt-B": ("convnext-b", 64, None, CONVERTED),
    "BERT large": ("bert-large", 16, 512, CONVERTED),
    "ModernBERT base": ("modernbert-base", 16, 512, CONVERTED),
    "T5 base": ("t5-base", 16, 512, CONVERTED),
    "Whisper small": ("whisper-small", 8, 256, CONVERTED),
}


@contextlib.contextmanager
def command_of(memtune, training, strategies, python):
    """The model and its flags. `training`: as in TRAININGS. `python` has torch and transformers."""
    config, batch, sequence, flags = training
    sizes = ["--batch", str(batch), *(["--seq", str(sequence)] if sequence else [])]
    rest = [*flags, *(["--strategy", strategies] if strategies else [])]
    if flags != CONVERTED:
        yield [str(CONFIGS / config), *sizes, *rest]
        return
    with tempfile.TemporaryDirectory() as out:
        program = out + "/model.pt2"
        run([memtune, "convert", str(CONFIGS / config), *sizes, "--dtype", "bf16", "--python", python, "-o", program])
        yield [program, "--batch", str(batch), *rest]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done.stdout


def answer(command):
    return json.loads(run([*command, "--json", "-", "-q"]))


def fastest(card):
    """The row of the strategy that `fit` recommends for this card; None where nothing fits."""
    return next((row for row in card["strategies"] if row["strategy"] == card.get("fastest")), None)


def recommend(memtune, training, card, python):
    """What `memtune fit` recommends for the memory of the card; if that is `none`, for LESS of what `none` needs, too."""
    profile = json.loads((PROFILES / f"{card}.json").read_text())
    with tempfile.TemporaryDirectory() as out, command_of(memtune, TRAININGS[training], None, python) as command:
        own, plan = Path(out) / "card.json", Path(out) / "plan.json"
        answers = []
        while not answers or answers[-1]["strategy"] == "none":
            if answers:
                profile["memory_bytes"] = int(LESS * answers[-1]["device_bytes"])
            own.write_text(json.dumps(profile))
            report = answer([memtune, "fit", *command, "--card", str(own), "--write", str(plan)])
            found, = report["cards"]
            row = fastest(found)
            if row is None:
                answers.append({"memory_bytes": profile["memory_bytes"], "strategy": None,
                                "least_bytes": found["least_bytes"]})
                break
            answers.append({"memory_bytes": profile["memory_bytes"], **row})
            if row["strategy"].startswith("plan:"):
                answers[-1]["plan"] = json.loads(plan.read_text())
                answers[-1]["expandable_segments"] = any(EXPANDABLE in note for note in report["notes"])
    return answers


def capped(memtune, training, recommended, python, kept):
    """The same with how each ran on the GPU of this machine, limited to that memory."""
    answers = []
    folder = contextlib.nullcontext(tempfile.mkdtemp(dir=kept)) if kept else tempfile.TemporaryDirectory()
    with folder as out, command_of(memtune, TRAININGS[training], None, python) as (model, *flags):
        plan = Path(out) / "plan.json"
        for number, one in enumerate(recommended):
            if one["strategy"] is None:
                answers.append(one)
                continue
            plan.write_text(json.dumps(one.get("plan")))
            chosen = ["--plan", str(plan)] if "plan" in one else ["--strategy", one["strategy"]]
            setting = ["env", EXPANDABLE] if one.get("expandable_segments") else []
            report = answer([*setting, memtune, "sweep", "--model", model, "--device", "cuda", "--rounds", "1", "--steps", "2",
                             *flags, *chosen, "--memory-cap", f"{one['memory_bytes']}B", "--out", f"{out}/{number}"])
            trial = report["trials"][-1]
            answers.append({**one, "outcome": trial["outcome"], "reason": trial["reason"],
                            "measured": next(iter(measured_rows({"trials": [trial]}).values()), None)})
    return answers


def predict(memtune, training, card, python):
    """{strategy: its row} of `memtune fit`."""
    with command_of(memtune, TRAININGS[training], ";".join(STRATEGIES), python) as command:
        report = answer([memtune, "fit", *command, "--card", card])
    rows = {row.pop("strategy"): row for row in report["cards"][0]["strategies"]}
    return {strategy: rows[strategy] for strategy in STRATEGIES}


def measure(memtune, training, python):
    command = command_of(memtune, TRAININGS[training], ";".join(STRATEGIES), python)
    with tempfile.TemporaryDirectory() as out, command as (model, *flags):
        report = answer([memtune, "sweep", "--model", model, "--device", "cuda", "--rounds", "1", "--steps", "3", *flags,
                         "--out", out + "/run"])
    return report["device"], measured_rows(report)


def measured_rows(report):
    """{strategy: its figures} of a sweep's JSON."""
    return {trial["strategy"]: {"allocated_bytes": trial["peak_bytes"]["allocated"],
                                "device_bytes": trial["peak_bytes"]["device"], "step_ms": trial["step_ms"]["median"]}
            for trial in report["trials"] if trial["outcome"] == "ok"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "predict", "recommend", "capped"])
    parser.add_argument("memtune")
    parser.add_argument("out", type=Path)
    parser.add_argument("--card", default="h200")
    parser.add_argument("--recommended", type=Path, help="what `recommend` wrote")
    parser.add_argument("--keep", type=Path, help="folder for the sweeps, of `capped`")
    parser.add_argument("--python", default=sys.executable, help="has torch and transformers, for converted models")
    parser.add_argument("--only", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    options = parser.parse_args()
    known = json.loads(options.recommended.read_text()) if options.what == "capped" else {"card": options.card}
    written = {"card": known["card"], "trainings": {}}
    for training in options.only:
        if options.what == "predict":
            row = predict(options.memtune, training, options.card, options.python)
        elif options.what == "recommend":
            row = recommend(options.memtune, training, options.card, options.python)
        elif options.what == "capped":
            row = capped(options.memtune, training, known["trainings"][training], options.python, options.keep)
        else:
            written["device"], row = measure(options.memtune, training, options.python)
        written["trainings"][training] = row
        options.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
