"""Compares memtune's plans under budgets with every fixed strategy, model by model.

    python bench/budgets.py FOLDER                                # all models, five budgets each
    python bench/budgets.py FOLDER bench --budgets 14.7 13.2
    python bench/budgets.py FOLDER bench --plans                  # also the plans of plans/
    python bench/budgets.py FOLDER --device cpu                   # tiny models, to check that it runs
    python bench/budgets.py FOLDER bench --table                  # prints the table of an earlier run
    python bench/budgets.py FOLDER --predict MEMTUNE_PREDICT      # strategies instead of budgets

The strategies that `memtune sweep` runs without a budget (profiles/sweeps/default.json) run first, then one `memtune
sweep --budget` for each budget, all in one call and into one folder. So a row names the best of all fixed strategies.
FOLDER/NAME gets the model, fixed.json, budget-N.json and table.md. Predictions are those made before the plan ran. The
last column is the time of the budget's sweep, without the earlier measurement of `none`.

With --predict, five strategies of five models run, in two rounds. Their steps are predicted from the step of `none` that
the same run recorded, with the host's issue times and without. Compared are times relative to `none`, predicted and in
each round, because processes of a model that waits for its host differ by 10 % and more. MEMTUNE_PREDICT is the program
memtune-predict of the build.
"""

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
STRATEGIES = tuple(json.loads((HERE.parent / "profiles" / "sweeps" / "default.json").read_text())["strategies"])
COLUMNS = ("budget GiB", "plan", "ms", "× none", "peak GiB", "step predicted", "peak predicted", "best fixed that fits",
           "ms", "plan is faster by", "s")
TINY_BUDGETS = (0.0053, 0.0047, 0.0042)


class Case(NamedTuple):
    exported: Tuple = ()       # model, batch, length and loss, as in eager.py
    traced: str = ""           # name in real_models.py
    config: str = ""           # a folder below configs/
    flags: str = ""
    budgets: Tuple = ()        # GiB
    plans: bool = False        # also run the hand-written plans


IMAGES = "--loss cross_entropy --autocast bf16"
CASES = {
    "bench": Case(("bench", 4, 4096, "next_token"), plans=True,
                  budgets=(36.3, 30, 24.8, 21.5, 20.5, 17.4, 14.7, 13.2, 12.75, 12.25)),
    "long": Case(("bench", 1, 16384, "next_token"), budgets=(30, 24.8, 18, 14, 12.5)),
    "vit": Case(("vit", 128, 224, "cross_entropy"), budgets=(40, 30, 20, 12, 7.5)),
    "moe": Case(("moe", 4, 4096, "next_token"), budgets=(22, 18, 15, 12.5, 11.5)),
    "qwen3_moe": Case(config="qwen3-moe", flags="--batch 4 --seq 2048 --dtype bf16", budgets=(30, 24, 18, 15)),
    "gemma3_1b": Case(config="gemma-3-1b", flags="--batch 2 --seq 2048 --dtype bf16", budgets=(24, 20, 16, 14)),
    "gpt2_medium": Case(config="gpt2-medium", flags="--batch 8 --seq 1024 --autocast bf16", budgets=(23, 18, 14, 11, 9.2)),
    "resnet101": Case(traced="resnet101", flags=IMAGES, budgets=(7.5, 6, 4.5, 3.5, 2.6)),
    "convnext_b": Case(traced="convnext_b", flags=IMAGES, budgets=(8, 6.5, 5, 3.5, 2.8)),
    "llama_lora": Case(config="llama-3.2-1b", budgets=(15, 11, 8, 5.5, 4.2),
                       flags="--batch 2 --seq 4096 --autocast bf16 --lora r=16,alpha=32 --loss-impl fused"),
}
TINY = {"bench": "tiny", "vit": "vit_tiny", "moe": "moe_tiny"}
PREDICTED = ("convnext_b", "qwen3_moe", "llama_lora", "gemma3_1b", "gpt2_medium")  # of --predict
PREDICTED_STRATEGIES = ("none", "checkpoint:full", "checkpoint:cheap", "checkpoint:full,inputs=host", "offload:stream")


def export(case: Case, folder: Path, options) -> List[str]:
    """Exports the model. Returns the flags that select it in memtune."""
    if case.config:
        return ["--model", str(HERE / "configs" / case.config)]
    model, inputs = folder / "model.pt", folder / "inputs.safetensors"
    if case.exported:
        name, batch, length, loss = case.exported
        size = ["--model", name, "--batch", str(batch), "--length", str(length)]
        if options.device == "cpu":
            size = ["--model", TINY[name], "--device", "cpu", "--dtype", "fp32"]
        if not model.exists():
            subprocess.run([sys.executable, HERE / "eager.py", "--export", model, *size], check=True)
        return ["--model", str(model), "--inputs", str(inputs), "--loss", loss]
    if not model.exists():
        code = (f"import sys, types; sys.path.insert(0, {str(HERE)!r}); import real_models; from pathlib import Path;"
                f"real_models.Eager({case.traced!r}, Path({str(folder)!r}),"
                f" types.SimpleNamespace(device={options.device!r}, tiny={options.device == 'cpu'}))")
        subprocess.run([sys.executable, "-c", code], check=True)
    return ["--model", str(model), "--inputs", str(inputs)]


def sweep(folder: Path, name: str, flags: List[str], options, rounds: int = 1) -> dict:
    answer = folder / f"{name}.json"
    began = time.monotonic()
    command = shlex.split(options.memtune) + [
        "sweep", *flags, "--device", options.device, "--warmup", str(options.warmup), "--steps", str(options.steps),
        "--rounds", str(rounds), "--out", str(folder / "run"), "--json", str(answer)]
    with open(folder / f"{name}.log", "w") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
    if not answer.exists():
        raise RuntimeError(f"{shlex.join(command)} ended with {code}:\n{(folder / f'{name}.log').read_text()[-2000:]}")
    found = json.loads(answer.read_text())
    found["seconds"] = time.monotonic() - began
    answer.write_text(json.dumps(found))
    return found


def measure(name: str, folder: Path, options):
    case = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    model = export(case, folder, options) + ([] if options.device == "cpu" else case.flags.split())
    fixed = [part for strategy in STRATEGIES for part in ("--strategy", strategy)]
    if options.plans and case.plans and options.device != "cpu":
        fixed += [part for plan in sorted((HERE / "plans").glob("*.json")) for part in ("--plan", str(plan))]
    sweep(folder, "fixed", model + fixed, options)
    for i, gib in enumerate(TINY_BUDGETS if options.device == "cpu" else options.budgets or case.budgets):
        sweep(folder, f"budget-{i}", model + ["--budget", f"{int(gib * GIB)}B"], options)


def read_predictions(run: Path, costs: Path, options) -> Dict[str, dict]:
    lines = subprocess.run([options.predict, run, costs], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {found["strategy"]: found for found in map(json.loads, lines.splitlines())}


def predict(name: str, folder: Path, options) -> str:
    """Measures the strategies. Returns a table of predicted beside measured steps."""
    folder.mkdir(parents=True, exist_ok=True)
    model = export(CASES[name], folder, options) + ([] if options.device == "cpu" else CASES[name].flags.split())
    flags = [part for strategy in PREDICTED_STRATEGIES for part in ("--strategy", strategy)]
    answer = sweep(folder, "strategies", model + flags, options, rounds=2)
    recorded = next((folder / "run" / "trials").glob("*/costs.json"))
    costs = json.loads(recorded.read_text())
    issue = costs.pop("issue", None)
    (folder / "without.json").write_text(json.dumps(costs))
    predicted = read_predictions(folder / "run", recorded, options)
    without = read_predictions(folder / "run", folder / "without.json", options)
    lines = ["| strategy | ms | × none in each round | predicted | without the host | peak predicted |",
             "|---|---|---|---|---|---|"]
    errors = {"off by": [], "without the host": []}
    for trial in trials(answer):
        name, times = trial["strategy"], times_none(trial)
        measured = math.exp(statistics.mean(map(math.log, times)))
        off = [some[name]["step_ms"]["predicted"] / some["none"]["step_ms"]["predicted"] / measured - 1
               for some in (predicted, without)]
        if name != "none":
            for one, error in zip(errors.values(), off):
                one.append(abs(error))
        lines.append(f"| {name} | {ms(trial):.1f} | {', '.join(f'{one:.3f}' for one in times)} | {signed(off[0])} "
                     f"| {signed(off[1])} | {signed(predicted[name]['peak_bytes']['error'])} |")
    if all(errors.values()):
        lines += ["", "Without `none`: " + ", ".join(
            f"{words} {100 * statistics.median(one):.1f} % in the median, {100 * max(one):.1f} % at most"
            for words, one in errors.items())]
    lines += [f"host issues for {host_ms(issue):.1f} ms" if issue else "no issue times were recorded"]
    lines += [finding["what"] for finding in answer["findings"] if finding["rule"] == "host-bound"]
    return "\n".join(lines + [f"{answer['seconds']:.0f} s"])


def times_none(trial: dict) -> List[float]:
    return [one["step_ms"]["median"] / one["base_ms"] for one in trial["rounds"]]


def host_ms(issue: dict) -> float:
    """What issuing one micro-batch and the update takes."""
    rows = issue["runs"]["rows"] + issue["moments"]["rows"]
    return sum(ms for ms, _ in rows) + issue["before_ms"] + issue["after_ms"]


def trials(answer: dict) -> List[dict]:
    return [trial for trial in answer["trials"] if trial["outcome"] == "ok"]


def peak(trial: dict) -> int:
    """What the budget limits: bytes on the device; on a CPU, which has none, allocated bytes."""
    return trial["peak_bytes"]["device"] or trial["peak_bytes"]["allocated"]


def ms(trial: dict) -> float:
    return trial["step_ms"]["median"]


def signed(share: Optional[float]) -> str:
    return "-" if share is None else f"{100 * share:+.2f} %"


def is_plan(trial: dict) -> bool:
    return trial["strategy"].startswith("plan:")


def row(answer: dict, fixed: Dict[str, dict]) -> str:
    """One budget: the result of the planner's sweep, and the best of `fixed` that fits."""
    budget, none = answer["budget_bytes"], ms(fixed["none"])
    found = [trial for trial in trials(answer) if is_plan(trial) or trial["strategy"] == "none"]
    capped = [trial for trial in trials(answer) if not is_plan(trial)]
    ours, best = (min((trial for trial in some if peak(trial) <= budget), key=ms, default=None)
                  for some in (found, [*fixed.values(), *capped]))
    cells = [f"{budget / GIB:.2f}"]
    if ours:
        predicted = ours.get("predicted") or {}
        cells += [ours["strategy"], f"{ms(ours):.1f}", f"{ms(ours) / none:.3f}", f"{peak(ours) / GIB:.2f}",
                  signed(predicted.get("step_error")), signed(predicted.get("peak_error"))]
    else:
        cells += ["none fits"] + ["-"] * 5
    cells += [best["strategy"], f"{ms(best):.1f}"] if best else ["-", "-"]
    cells += [f"{100 * (1 - ms(ours) / ms(best)):+.1f} %" if ours and best else "-", f"{answer['seconds']:.0f}"]
    return "| " + " | ".join(cells) + " |"


def table(folder: Path) -> str:
    answers = [json.loads(path.read_text()) for path in sorted(folder.glob("budget-*.json"))]
    everything = answers + [json.loads(path.read_text()) for path in folder.glob("fixed.json")]
    fixed = {trial["strategy"]: trial for answer in everything for trial in trials(answer) if not is_plan(trial)}
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += [row(answer, fixed) for answer in answers if "seconds" in answer]
    lines += ["", "| fixed | ms | × none | peak GiB |", "|---|---|---|---|"]
    none = ms(fixed["none"])
    lines += [f"| {trial['strategy']} | {ms(trial):.1f} | {ms(trial) / none:.3f} | {peak(trial) / GIB:.2f} |"
              for trial in sorted(fixed.values(), key=peak, reverse=True)]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--budgets", type=float, nargs="+", metavar="GIB", help="default: each model's own")
    parser.add_argument("--plans", action="store_true", help="the decoder's plans of plans/ as well")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--predict", metavar="MEMTUNE_PREDICT", help="measure strategies beside their predictions")
    options = parser.parse_args()
    models = [*TINY] if options.device == "cpu" else PREDICTED if options.predict else CASES
    for name in options.names or models:
        folder = options.folder / name
        try:
            if options.predict:
                text = predict(name, folder, options)
            else:
                if not options.table:
                    measure(name, folder, options)
                text = table(folder)
        except (ImportError, RuntimeError, subprocess.CalledProcessError) as error:  # the next model may work
            print(f"## {name}\n\n{error}\n", flush=True)
            continue
        (folder / "table.md").write_text(text + "\n")
        print(f"## {name}\n\n{text}\n", flush=True)


if __name__ == "__main__":
    main()
