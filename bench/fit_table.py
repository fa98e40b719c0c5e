"""Writes docs/reference/what-fits.md: the fastest strategy of 26 trainings on eight GPUs, as `memtune fit` predicts it.

    python3 bench/fit_table.py MEMTUNE [--out FILE] [--only NAME ...]

Takes minutes on two cores, and no GPU. Steps on the H200 that were measured (results/raw/h200-fit) stand beside
their predictions; nothing else was measured.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import fit

ROOT = Path(__file__).resolve().parents[1]
CARDS = ["l4", "rtx3090", "rtx4090", "rtx5090", "l40s", "a100-80gb", "h100", "h200"]
QLORA = fit.LORA + ["--load-in", "4bit"]
MORE = {
    "Llama 3.1 8B, LoRA": ("llama-3.1-8b", 1, 2048, fit.BF16 + fit.CHUNKED + fit.LORA),
    "Llama 3.1 8B, QLoRA": ("llama-3.1-8b", 1, 2048, fit.BF16 + fit.CHUNKED + QLORA),
    "Llama 3.1 8B, optimizer in backward": ("llama-3.1-8b", 1, 2048, fit.BF16 + fit.CHUNKED + ["--optimizer-in-backward"]),
    "Qwen3 4B, LoRA": ("qwen3-4b", 2, 2048, fit.BF16 + fit.CHUNKED + fit.LORA),
    "Qwen3 4B, QLoRA": ("qwen3-4b", 2, 2048, fit.BF16 + fit.CHUNKED + QLORA),
    "Gemma 3 1B, LoRA": ("gemma-3-1b", 2, 2048, fit.BF16 + fit.CHUNKED + fit.LORA),
}
TRAININGS = {**fit.TRAININGS, **MORE}
STRATEGIES = "none;checkpoint:cheap;checkpoint:full;checkpoint:full,inputs=host"
TRAINER = "trl"
MEASURED = "MEASURED\n"
HEAD = """# What fits on which GPU

The fastest setting that `memtune fit` predicts to fit, for 26 trainings on eight GPUs: memtune's own strategies and plans,
and the step in ms as a range. **Predicted, never measured**, but for the cells that name a measured step. [How far to trust
it](../how-to/check-what-fits.md#how-far-to-trust-it), and [the measurements
behind](../../bench/results/README.md#what-fits-predicted-without-a-gpu). `bench/fit_table.py` writes this page. For your
training: [check what fits](../how-to/check-what-fits.md).

"""
NOTES = """
* `plan` is a plan of memtune's for that GPU's memory: `memtune fit ... --card NAME --write plan.json` writes it. It may
  offload parameters and optimizer states, too: [use it in Python](../how-to/use-a-plan-in-python.md). Behind it stands the
  fastest strategy that is no plan.
* The optimizer is AdamW in the dtype of the parameters, where the row names no other. LoRA has rank 16 on all linear layers.
* Context and libraries count as 750 MiB on each GPU.
MEASURED

The keys of these strategies for TRL, as `memtune fit --trainer trl` prints them:

"""


def predict(memtune, training, python, cards=",".join(CARDS)):
    with fit.command_of(memtune, training, STRATEGIES, python) as command:
        return fit.answer([memtune, "fit", *command, "--card", cards])


def cell(card, measured):
    if "fastest" not in card:
        return f"none fits; {card['least_bytes'] / (1 << 30):.1f} GiB at least"
    row, = (row for row in card["strategies"] if row["strategy"] == card["fastest"])
    name = "plan" if row["strategy"].startswith("plan:") else f"`{row['strategy']}`"
    text = f"{name}, {row['least_ms']:.0f} to {row['most_ms']:.0f}"
    fixed = min((row for row in card["strategies"] if row["fits"] and not row["strategy"].startswith("plan:")),
                key=lambda row: row["most_ms"], default=None)
    if name == "plan" and fixed:
        text += f"; `{fixed['strategy']}`, {fixed['least_ms']:.0f} to {fixed['most_ms']:.0f}"
    known = measured.get(row["strategy"]) if card["card"] == "h200" else None
    return text + (f"; measured {known['step_ms']:.0f}" if known else "")


def keys_of(memtune, strategies):
    lines = ["| strategy | keys |", "| --- | --- |"]
    for strategy in sorted(strategies):
        with fit.command_of(memtune, fit.TRAININGS["Llama 3.2 1B"], strategy, "") as command:
            keys = fit.answer([memtune, "fit", *command, "--card", "h200", "--trainer", TRAINER])["keys"]
        lines_of = [line.strip() for line in keys["text"].splitlines() if line.strip() and line[0] != "#"]
        shown = "; ".join(lines_of).replace(":; ", ": ")
        lines.append(f"| `{strategy}` | {f'`{shown}`' if keys['strategy'] == strategy else 'none'} |")
    return "\n".join(lines) + "\n"


def row_of(memtune, name, measured, python):
    """Cells, and the strategies in them."""
    _, batch, sequence, _ = TRAININGS[name]
    cards = predict(memtune, TRAININGS[name], python)["cards"]
    used = {row["strategy"] for card in cards for row in card["strategies"] if f"`{row['strategy']}`" in cell(card, {})}
    shape = f"{batch} × {sequence}" if sequence else f"{batch} images"
    return [f"{name}, {shape}", *(cell(card, measured.get(name, {})) for card in cards)], used


def measured_note(rows):
    """How many of the measured cells lie in their range."""
    cells = [re.search(r"(\d+) to (\d+); measured (\d+)$", row[-1]) for row in rows]
    inside = [int(found[1]) <= int(found[3]) <= int(found[2]) for found in cells if found]
    return f"* Of the {len(inside)} steps measured on the H200, {sum(inside)} lie in their range; the others took longer.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memtune")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/reference/what-fits.md")
    parser.add_argument("--python", default=sys.executable, help="has torch and transformers, for converted models")
    parser.add_argument("--only", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    options = parser.parse_args()
    measured = json.loads((ROOT / "bench/results/raw/h200-fit/measured.json").read_text())["trainings"]
    rows, used = [], set()
    for name in options.only:
        row, strategies = row_of(options.memtune, name, measured, options.python)
        used |= strategies
        rows.append(row)
        print(rows[-1], flush=True)
    head = ["training, batch × length", *CARDS]
    table = [head, ["---"] * len(head), *rows]
    options.out.write_text(HEAD + "\n".join("| " + " | ".join(row) + " |" for row in table) + "\n" +
                           NOTES.replace(MEASURED, measured_note(rows)) + keys_of(options.memtune, used))


if __name__ == "__main__":
    main()
