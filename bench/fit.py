"""Compares what `memtune fit` predicts with what `memtune sweep` measures.

    python3 bench/fit.py measure MEMTUNE OUT.json                  # on the GPU of the card; --only NAME for one
    python3 bench/fit.py predict MEMTUNE OUT.json [--card h200]    # anywhere

Both write bytes and milliseconds of each training and strategy. bench/figures.py makes a table of the two files, and
tests/e2e/fit_test.py compares them.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

CONFIGS = Path(__file__).resolve().parent / "configs"
STRATEGIES = ["none", "checkpoint:full", "checkpoint:cheap", "offload:stream"]
BF16 = ["--dtype", "bf16", "--loss", "causal_lm"]
AUTOCAST = ["--dtype", "float32", "--autocast", "bf16", "--loss", "causal_lm"]
CHUNKED = ["--loss-impl", "chunked=8"]
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
}


def flags_of(training):
    config, batch, sequence, flags = TRAININGS[training]
    return str(CONFIGS / config), ["--batch", str(batch), "--seq", str(sequence), *flags, "--strategy", ";".join(STRATEGIES)]


def answer(command):
    done = subprocess.run([*command, "--json", "-", "-q"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def predict(memtune, training, card):
    """{strategy: its row} of `memtune fit`."""
    folder, flags = flags_of(training)
    report = answer([memtune, "fit", folder, "--card", card, *flags])
    rows = {row.pop("strategy"): row for row in report["cards"][0]["strategies"]}
    return {strategy: rows[strategy] for strategy in STRATEGIES}


def measure(memtune, training):
    folder, flags = flags_of(training)
    with tempfile.TemporaryDirectory() as out:
        report = answer([memtune, "sweep", "--model", folder, "--device", "cuda", "--rounds", "1", "--steps", "3", *flags,
                         "--out", out + "/run"])
    return report["device"], measured_rows(report)


def measured_rows(report):
    """{strategy: its figures} of a sweep's JSON."""
    return {trial["strategy"]: {"allocated_bytes": trial["peak_bytes"]["allocated"],
                                "device_bytes": trial["peak_bytes"]["device"], "step_ms": trial["step_ms"]["median"]}
            for trial in report["trials"] if trial["outcome"] == "ok"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "predict"])
    parser.add_argument("memtune")
    parser.add_argument("out", type=Path)
    parser.add_argument("--card", default="h200")
    parser.add_argument("--only", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    options = parser.parse_args()
    written = {"card": options.card, "trainings": {}}
    for training in options.only:
        if options.what == "predict":
            written["trainings"][training] = predict(options.memtune, training, options.card)
        else:
            written["device"], written["trainings"][training] = measure(options.memtune, training)
        options.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
