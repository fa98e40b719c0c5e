"""Writes the tables of results/README.md and the figures quoted in README.md and docs, from the answers in results/raw.

    python bench/figures.py            # prints each block
    python bench/figures.py --write    # puts them into the documents
    python bench/figures.py --check    # exit code 1 if a block differs or is in no document, or results/raw has a path of
                                       # the machine that wrote it (a test)

A block is between <!-- NAME --> and <!-- /NAME --> in any of the documents. Times are medians of the kept samples. One
function computes them for both sides: for an even number, the mean of the middle two.
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Callable, Dict, List, Set, Tuple

HERE = Path(__file__).resolve().parent
RAW = HERE / "results" / "raw"
DOCUMENTS = (HERE.parent / "README.md", HERE / "results" / "README.md", *sorted((HERE.parent / "docs").rglob("*.md")))
GIB = 1 << 30
MACHINE_PATH = re.compile(r"(?<![\w.])/(tmp|root|home)/")
ENGINES = {"axolotl-sac": "axolotl, attention offloaded", "axolotl-hidden": "axolotl, block inputs offloaded",
           "torchtune+full": "torchtune, block inputs offloaded", "trl+full": "TRL, block inputs offloaded",
           "swift+full": "ms-swift, block inputs offloaded", "none": "no checkpointing",
           "full": "`torch.utils.checkpoint`, every block", "every2": "`torch.utils.checkpoint`, every second block",
           "op": "selective checkpointing (torchtitan's policy)", "op-matmul": "selective checkpointing, every matmul kept",
           "compile": "`torch.compile`", "compile-0.5": "`torch.compile`, activation budget 0.5",
           "compile-0.1": "`torch.compile`, activation budget 0.1"}


def ms(trial: dict) -> float:
    """The median. Checks that the tool wrote the same figure."""
    median = statistics.median(trial["step_ms"]["samples"])
    if abs(median - trial["step_ms"]["median"]) > 1e-3 * median:
        raise SystemExit(f"{trial['strategy']}: the answer says {trial['step_ms']['median']} ms, its samples {median}")
    return median


def peak(trial: dict, kind: str = "allocated") -> float:
    return trial["peak_bytes"][kind] / GIB


def is_plan(trial: dict) -> bool:
    return trial["strategy"].startswith("plan:")


def trials(path: Path) -> List[dict]:
    text = path.read_text()
    found = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)["trials"]
    return [trial for trial in found if trial["outcome"] == "ok"]


def table(rows: List[List[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def records(folder: Path) -> List[dict]:
    return [json.loads(line) for line in (folder / "training-state.jsonl").read_text().splitlines()]


def same(what: str, found: Set[str]) -> str:
    if len(found) != 1:
        raise SystemExit(f"the answers differ in their {what}: {', '.join(sorted(found))}")
    return found.pop()


def sweeps(folder: Path) -> List[Path]:
    """The answers of sweeps with a budget."""
    return [*sorted(folder.glob("budget-*.json")), folder / "sweep.json"]


def setup(folder: Path) -> str:
    """The machine and the programs. Every answer must name the same ones."""
    answers = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    others = trials(folder / "peers.jsonl")
    gpu = same("GPU", {answer["device"] for answer in answers} | {trial["device"] for trial in others})
    driver = same("driver", {answer["origin"]["driver"] for answer in answers})
    memtune = same("memtune", {answer["origin"]["memtune"] for answer in answers})
    day = same("day", {answer["origin"]["written"][:10] for answer in answers if answer["origin"]["written"]})
    torch = same("torch", {trial["package"].split()[-1] for trial in others if trial["package"].startswith("torch ")})
    processor = same("processor", {answer["origin"]["machine"] for answer in answers})
    return table([["GPU", "driver", "processor", "PyTorch", "memtune", "day"],
                  [gpu, driver, processor, torch, memtune, day]])


def saves_setup(folder: Path) -> str:
    """The same for the saves, which were measured on another day."""
    setting = next(record for record in records(folder) if record["kind"] == "setting")
    gpu, driver = setting["gpu"].split(", ")[:2]
    torch = same("torch", {record["torch"] for record in records(folder) if record["kind"] == "peers"})
    return table([["GPU", "driver", "PyTorch", "memtune", "day"],
                  [gpu, driver, torch, setting["memtune"].split()[-1], setting["date"]]])


def transcript(folder: Path) -> str:
    """The command, which is the last line of the report, the table, and the recommendation."""
    parts = (folder / "sweep.txt").read_text().rstrip().split("\n\n")
    command = parts[-1][parts[-1].index("$ "):].replace("\n ", " \\\n    ")
    shown = [parts[0], parts[1]] + [part for part in parts if part.startswith(" Recommended")]
    lines = (command + "\n" + "\n\n".join(shown)).splitlines()
    return "\n".join(("    " + line).rstrip() for line in lines)


def budgets(folder: Path) -> str:
    """For each budget the fastest plan that fits, and the fastest fixed strategy: of the same sweep, which runs under a
    cap of the budget, or of those that ran without."""
    answers = [json.loads(path.read_text()) for path in sweeps(folder)]
    fixed = trials(folder / "fixed.json")
    rows = [["budget, GiB on the device", "memtune's plan, ms", "fastest fixed strategy, ms", "which"]]
    for answer in sorted(answers, key=lambda answer: -answer["budget_bytes"]):
        worked = [trial for trial in answer["trials"] if trial["outcome"] == "ok"]
        plans = [trial for trial in worked if is_plan(trial)]
        others = fixed + [trial for trial in worked if not is_plan(trial)]
        ours, best = (min((trial for trial in some if trial["peak_bytes"]["device"] <= answer["budget_bytes"]), key=ms,
                          default=None) for some in (plans, others))
        cells = [f"{answer['budget_bytes'] / GIB:.4g}", f"{ms(ours):.1f}" if ours else "none fits"]
        rows.append(cells + ([f"{ms(best):.1f}", f"`{best['strategy']}`"] if best else ["none fits", ""]))
    return table(rows)


def peers(folder: Path) -> str:
    """Every row of PyTorch and the trainers' engines in that call."""
    rows = [["PyTorch and the trainers' engines", "ms", "peak allocated, GiB", "peak reserved"]]
    for trial in sorted(trials(folder / "peers.jsonl"), key=lambda trial: -peak(trial)):
        rows.append([ENGINES[trial["strategy"]], f"{ms(trial):.1f}"]
                    + [f"{peak(trial, kind):.2f}" for kind in ("allocated", "reserved")])
    return table(rows)


def saves(folder: Path) -> str:
    """Every way to save, memtune's and PyTorch's. The first save is cold and has its own column."""
    ways: Dict[str, dict] = {}
    for record in records(folder):
        if record["kind"] == "memtune" and record.get("blocked_ms") and record["strategy"] == "none":
            name = f"memtune `--save {record['way']}`"
            ways[name] = {"blocked": record["blocked_ms"], "durable": record["durable_ms"], "errors": record["errors"]}
        elif record["kind"] == "peer":
            way = ways.setdefault(f"torch, {record['way']}", {"blocked": [], "durable": [], "errors": []})
            if "error" in record:
                way["errors"].append(f"save {record['save']}: {record['error']}")
            elif "blocked_ms" in record:
                way["blocked"].append(record["blocked_ms"])
                way["durable"].append(record["durable_ms"])
    rows = [["saved by", "saves", "blocks training, ms: first", "median of the others", "durable, s: median", "failures"]]
    for name, way in ways.items():
        later = way["blocked"][1:]
        rows.append([name, str(len(way["blocked"])), f"{way['blocked'][0]:.1f}" if way["blocked"] else "–",
                     f"{statistics.median(later):.1f}" if later else "–",
                     f"{statistics.median(way['durable']) / 1e3:.1f}" if way["durable"] else "–",
                     "; ".join(error.split("\n")[0][:60] for error in way["errors"][:1]) or "none"])
    return table(rows)


def fixed(folder: Path) -> str:
    """Every fixed strategy of the call, from the largest peak to the smallest."""
    found = trials(folder / "fixed.json")
    none = ms(next(trial for trial in found if trial["strategy"] == "none"))
    rows = [["strategy", "ms", "× none", "peak allocated, GiB", "peak reserved", "peak on the device"]]
    for trial in sorted(found, key=lambda trial: -peak(trial)):
        rows.append([f"`{trial['strategy']}`", f"{ms(trial):.1f}", f"{ms(trial) / none:.2f}"]
                    + [f"{peak(trial, kind):.2f}" for kind in ("allocated", "reserved", "device")])
    return table(rows)


def predicted(folder: Path) -> str:
    """The planner's predictions for each plan, made before it ran."""
    rows = [["plan", "ms", "step predicted", "peak allocated, GiB", "predicted", "peak on the device", "predicted",
             "expandable segments"]]
    for path in sweeps(folder):
        for trial in trials(path):
            if is_plan(trial) and trial.get("predicted"):
                error = trial["predicted"]
                on_device = error["required_bytes"] / trial["peak_bytes"]["device"] - 1
                rows.append([f"`{trial['strategy']}`", f"{ms(trial):.1f}", f"{100 * error['step_error']:+.1f} %",
                             f"{peak(trial):.2f}", f"{100 * error['peak_error']:+.2f} %", f"{peak(trial, 'device'):.2f}",
                             f"{100 * on_device:+.2f} %", "yes" if trial.get("allocator") else "no"])
    return table(rows)


def spread(folder: Path) -> str:
    """How much the steps of one process differ, in both tables."""
    found = trials(folder / "fixed.json") + trials(folder / "peers.jsonl")
    shares = [100 * (max(trial["step_ms"]["samples"]) - min(trial["step_ms"]["samples"])) / ms(trial) for trial in found]
    return (f"The slowest and the fastest step of a row differ by {statistics.median(shares):.1f} % in the median, by "
            f"{max(shares):.1f} % at most.")


def beside(folder: Path) -> str:
    """A sentence with PyTorch's own strategies that need about the budget of the transcript."""
    found = {trial["strategy"]: trial for trial in trials(folder / "peers.jsonl")}
    full, compiled = found["full"], found["compile-0.1"]
    return (f"On that machine PyTorch's checkpointing of every block takes {ms(full):.1f} ms at {peak(full):.2f} GiB. `torch.compile` "
            f"fuses kernels, too:\n{ms(compiled):.1f} ms at {peak(compiled):.2f} GiB with an activation budget of 0.1.")


def disk(folder: Path) -> str:
    """A sentence with the write rate of the scratch disk alone."""
    rates = [rate for record in records(folder) if record["kind"] == "raw disk" for rate in record["gb_per_s"].values()]
    size = next(record["bytes"] for record in records(folder) if record["kind"] == "raw disk") / 1e9
    return (f"The state has {size:.2f} GB: parameters and AdamW's moments. The disk by itself writes {min(rates):.2f} to "
            f"{max(rates):.2f} GB/s.")


def of_ranks(trial: dict) -> float:
    """The median step of the slowest rank, as the tool wrote it: a kept sample is of one rank."""
    return trial["step_ms"]["median"]


def sharded(folder: Path) -> str:
    """Each row of memtune and of FSDP2 on four GPUs, from the largest peak to the smallest."""
    predicted = json.loads((folder / "predicted.json").read_text())
    ours = {trial["strategy"]: trial for name in ("plans.json", "memtune.json") for trial in trials(folder / name)}
    rows = [(trial, "FSDP2") for trial in trials(folder / "peers.jsonl")] + [(trial, "memtune") for trial in ours.values()]
    none = next(of_ranks(trial) for trial, by in rows if by == "FSDP2" and trial["strategy"] == "none")
    cells = [["row", "by", "ms", "× none of FSDP2", "peak allocated, GiB", "host memory of a rank, GiB", "gradients",
              "step predicted", "peak predicted"]]
    for trial, by in sorted(rows, key=lambda row: -peak(row[0])):
        paper, equal = predicted.get(trial["strategy"]), trial.get("gradients")
        cells.append([f"`{trial['strategy']}`", by, f"{of_ranks(trial):.1f}", f"{of_ranks(trial) / none:.3f}", f"{peak(trial):.2f}",
                      f"{trial['host_bytes'] / GIB:.2f}" if "host_bytes" in trial else "",
                      "" if equal is None else "equal" if equal["equal"] else "differ",
                      f"{100 * (paper['step_ms'] / of_ranks(trial) - 1):+.1f} %" if paper else "",
                      f"{100 * (paper['peak_bytes'] / 2 ** 30 / peak(trial) - 1):+.2f} %" if paper else ""])
    return table(cells)


def links(folder: Path) -> str:
    """What `memtune doctor` measured of each GPU's link, by itself and with the others."""
    checks = json.loads((folder / "doctor.json").read_text())["checks"]
    text = next(check["detail"] for check in checks if check["name"] == "links together")
    found = re.findall(r"(cuda:\d) ([\d.]+) of ([\d.]+) GB/s out, ([\d.]+) of ([\d.]+) in", text)
    return table([["GPU", "out, all at once", "alone", "in, all at once", "alone"], *map(list, found)])


def rank_saves(folder: Path) -> str:
    """A sentence about saves on four ranks, beside the run without."""
    saved, never = (json.loads((folder / name).read_text()) for name in ("saved.json", "never.json"))
    if saved["loss"] != never["loss"]:
        raise SystemExit("saves changed the losses")
    steps = [statistics.median(answer["times_ms"][4:]) for answer in (saved, never)]
    blocked, durable = ([save[key] for save in saved["saves"]] for key in ("blocked_ms", "durable_ms"))
    return (f"Saves of {saved['saves'][0]['bytes'] / 1e9:.2f} GB blocked training for {' and '.join(f'{ms:.1f}' for ms in blocked)} "
            f"ms, and were durable after\n{' and '.join(f'{ms / 1e3:.1f}' for ms in durable)} s. A step took {steps[0]:.1f} ms, "
            f"without saves {steps[1]:.1f} ms. A rank held {saved['save_host_bytes'] / 1e9:.2f} GB of host memory\nfor them. Losses "
            f"are those of the run without saves, bit for bit.")


def smallest(folder: Path) -> str:
    """The smallest device for transformers, and memtune's checkpoint:full on a device of that size."""
    rows = [["model", "transformers: allocated, GiB", "ms", "smallest device, GiB", "memtune there", "ms", "on the device, GiB"]]
    for line in (folder / "smallest-cap.jsonl").read_text().splitlines():
        found = json.loads(line)
        whole, best, trial = found["whole"], found["best"], found["memtune"][0]
        cells = ["runs", f"{ms(trial):.1f}", f"{peak(trial, 'device'):.2f}"] if trial["outcome"] == "ok" else [trial["outcome"], "", ""]
        rows.append([found["model"], f"{whole['allocated'] / GIB:.2f}", f"{best['ms']:.1f}", f"{found['cap'] / GIB:.2f}", *cells])
    return table(rows)


def plan_errors(found: dict) -> Tuple[float, float]:
    """Of the step's time and of the bytes on the device, as shares of what was predicted."""
    trial, told = found["trial"], found["predicted"]
    return ms(trial) / told["step_ms"] - 1, peak(trial, "device") * GIB / told["required_bytes"] - 1


def card(folder: Path) -> str:
    """Plans of eight models that ran once, each on a device of its budget."""
    rows = [["model", "budget, GiB", "ms", "predicted, ms", "error", "on the device, GiB", "predicted, GiB", "error",
             "expandable segments", "retries"]]
    for line in (folder / "plans.jsonl").read_text().splitlines():
        found = json.loads(line)
        trial, told = found["trial"], found["predicted"]
        cells = [trial["outcome"]] + [""] * (len(rows[0]) - 3)
        if trial["outcome"] == "ok":
            step, device = plan_errors(found)
            cells = [f"{ms(trial):.1f}", f"{told['step_ms']:.1f}", f"{100 * step:+.1f} %", f"{peak(trial, 'device'):.2f}",
                     f"{told['required_bytes'] / GIB:.2f}", f"{100 * device:+.1f} %",
                     "yes" if trial["allocator"] else "no", str(trial["allocator_retries"])]
        rows.append([found["model"], f"{found['budget'] / GIB:.2f}", *cells])
    return table(rows)


def card_errors(folder: Path) -> str:
    found = [json.loads(line) for line in (folder / "plans.jsonl").read_text().splitlines()]
    errors = [plan_errors(one) for one in found if one["trial"]["outcome"] == "ok"]
    step, device = ([abs(error) for error in column] for column in zip(*errors))
    return (f"{len(errors)} of {len(found)} ran. Steps were off by {100 * statistics.median(step):.1f} % in the median and by "
            f"{100 * max(step):.0f} % at most, {sum(error <= 0.02 for error in step)} by no more than 2 %. Bytes on the "
            f"device were off by {100 * statistics.median(device):.1f} % in the median and by {100 * max(device):.0f} % at "
            f"most.")


def models(folder: Path) -> str:
    """A row for each model and strategy: memtune, and the same model in Python in the same call."""
    rows = [["model", "strategy", "memtune, ms", "Python, ms", "memtune's time", "memtune, GiB", "Python, GiB",
             "memtune's peak"]]
    for path in sorted(folder.glob("*.memtune.json")):
        name = path.name.split(".")[0]
        python = {trial["strategy"]: trial for trial in trials(folder / f"{name}.eager.jsonl")}
        for trial in trials(path):
            other = python[trial["strategy"].removeprefix("checkpoint:")]
            rows.append([name, f"`{trial['strategy']}`", f"{ms(trial):.1f}", f"{ms(other):.1f}", f"{ms(trial) / ms(other):.2f} ×",
                         f"{peak(trial):.2f}", f"{peak(other):.2f}", f"{100 * (peak(trial) / peak(other) - 1):+.1f} %"])
    return table(rows)


def causes(folder: Path) -> str:
    """Failures by what memtune gave as their cause, and whether they trained after its first remedy."""
    found = [json.loads(line) for line in (folder / "causes.jsonl").read_text().splitlines()]
    rows = [["cause by memtune", "failures", "right", "trains after the first remedy"]]
    for cause in sorted({one["found"] for one in found}):
        of_cause = [one for one in found if one["found"] == cause]
        rows.append([f"`{cause}`", ", ".join(one["name"] for one in of_cause),
                     *(str(sum(one[key] for one in of_cause)) for key in ("right", "fixed"))])
    rows.append(["together", str(len(found)), *(str(sum(one[key] for one in found)) for key in ("right", "fixed"))])
    return table(rows)


def commands(folder: Path) -> str:
    """A training script alone and under `memtune profile`: a line of bench/command_records.py each."""
    found = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    rows = [["script", "step alone, ms", "under memtune", "cost", "losses, at most apart", "alone", "owners off by, bytes",
             "modules off", "call paths off", "shares, at most apart, points", "by the profiler", "profiled step, × alone"]]
    for one in found:
        step, losses, owners = one["cost"]["step"], one["losses"], one["owners"]
        if "profiler" not in one:  # recorded when scripts had no events of their own
            one["profiler"] = one.pop("shares")
            one["profiler"]["slowed"] = one["profiler"]["profiled_step_ms"] / step["plain_ms"]
        told = [f"{100 * one[by]['apart']:.1f} ({one[by]['worst']})" if by in one else "" for by in ("shares", "profiler")]
        rows.append([one["workload"], f"{step['plain_ms']:.2f}", f"{step['memtune_ms']:.2f}", f"{100 * step['apart']:+.2f} %",
                     f"{losses['apart']:.2g}", f"{losses['plain_apart']:.2g}", str(owners["sum"] - owners["allocator"]),
                     f"{100 * one['modules']['apart']:.2f} %", f"{100 * one['paths']['apart']:.2f} %",
                     *told, f"{one['profiler']['slowed']:.2f}"])
    return table(rows)


def presets(folder: Path) -> str:
    """Steps of other engines' settings: a line of memtune-predict each."""
    rows = [["strategy", "ms", "step predicted", "peak predicted"]]
    for line in (folder / "presets.jsonl").read_text().splitlines():
        one = json.loads(line)
        rows.append([f"`{one['strategy']}`", f"{one['step_ms']['measured']:.1f}", f"{100 * one['step_ms']['error']:+.2f} %",
                     f"{100 * one['peak_bytes']['error']:+.3f} %"])
    return table(rows)


def fit(folder: Path) -> str:
    """What memtune fit predicted without a GPU, beside what a sweep measured."""
    predicted, measured = (json.loads((folder / f"{name}.json").read_text())["trainings"] for name in ("predicted", "measured"))
    rows = [["training", "strategy", "allocated, GiB", "predicted", "on the device, GiB", "predicted", "ms", "predicted", "in the range"]]
    for training, strategies in predicted.items():
        for strategy, guess in strategies.items():
            truth = measured[training][strategy]
            error = {key: f"{100 * (guess[key] / truth[key] - 1):+.2f} %" for key in ("allocated_bytes", "device_bytes")}
            inside = guess["least_ms"] <= truth["step_ms"] <= guess["most_ms"]
            rows.append([training, f"`{strategy}`", f"{truth['allocated_bytes'] / GIB:.2f}", error["allocated_bytes"],
                         f"{truth['device_bytes'] / GIB:.2f}", error["device_bytes"], f"{truth['step_ms']:.0f}",
                         f"{guess['least_ms']:.0f} to {guess['most_ms']:.0f}", "yes" if inside else "no"])
    return table(rows)


def largest(folder: Path) -> str:
    """The largest batch that memtune fit finds for a card, run under a cap of its memory."""
    rows = [["training", "strategy", "largest batch", "ran", "ms", "allocated, GiB", "predicted", "on the device, GiB", "predicted"]]
    for line in (folder / "largest.jsonl").read_text().splitlines():
        run = json.loads(line)
        errors = [f"{100 * (run['predicted_' + key] / run[key] - 1):+.1f} %" for key in ("allocated_bytes", "device_bytes")]
        rows.append([run["training"], f"`{run['strategy']}`", str(run["batch"]), "yes" if run["outcome"] == "ok" else run["outcome"],
                     f"{run['step_ms']:.0f}", f"{run['allocated_bytes'] / GIB:.2f}", errors[0], f"{run['device_bytes'] / GIB:.2f}", errors[1]])
    return table(rows)


def recommended(folder: Path) -> str:
    """What memtune fit recommends for the memory of a card and for less, run under a cap of that memory."""
    rows = [["training", "memory, GiB", "recommended", "expandable segments", "ran", "ms", "on the device, GiB", "predicted"]]
    for training, runs in json.loads((folder / "recommended.json").read_text())["trainings"].items():
        for run in runs:
            ran = run["measured"]
            cells = ["yes", f"{ran['step_ms']:.0f}", f"{ran['device_bytes'] / GIB:.2f}",
                     f"{100 * (run['device_bytes'] / ran['device_bytes'] - 1):+.1f} %"] if ran else ["out of memory", "", "", ""]
            rows.append([training, f"{run['memory_bytes'] / GIB:.2f}", "plan" if run["strategy"].startswith("plan:")
                         else f"`{run['strategy']}`", "yes" if run.get("expandable_segments") else "", *cells])
    return table(rows)


def one_more(folder: Path) -> str:
    """One sample more than fits by prediction."""
    rows = [["training", "strategy", "batch", "outcome"]]
    for line in (folder / "one-more.jsonl").read_text().splitlines():
        run = json.loads(line)
        outcome = f"ran at {run['device_bytes'] / GIB:.2f} GiB" if run["outcome"] == "ok" else "out of memory"
        rows.append([run["training"], f"`{run['strategy']}`", str(run["batch"]), outcome])
    return table(rows)


# What a calculator's answer is compared with: allocated, where it has no term for context and libraries.
CLAIMS = {"accelerate": "allocated", "fitcheck-llm": "device", "vramcalc": "allocated", "ftuneai": "device",
          "llm-analysis": "allocated"}


def calculators(folder: Path) -> str:
    """Errors of other memory calculators, and of memtune fit in the same cells."""
    predicted, measured = (json.loads((folder / f"{name}.json").read_text())["trainings"] for name in ("predicted", "measured"))
    answers = json.loads((folder / "calculators.json").read_text())
    rows = [["calculator", "trainings", "cells", "compared with", "median error", "worst", "too low in", "memtune, median", "worst"]]
    for name, version in answers["calculators"].items():
        key = CLAIMS[name] + "_bytes"
        cells = [(training, strategy, given) for training, of in answers["trainings"].items()
                 for strategy, given in of.get(name, {}).items()]
        theirs = [100 * (given / measured[training][strategy][key] - 1) for training, strategy, given in cells]
        ours = [100 * abs(predicted[training][strategy][key] / measured[training][strategy][key] - 1)
                for training, strategy, _ in cells]
        rows.append([f"{name} {version}", str(len({cell[0] for cell in cells})), str(len(cells)), CLAIMS[name],
                     f"{statistics.median(map(abs, theirs)):.1f} %", f"{max(theirs, key=abs):+.1f} %",
                     str(sum(error < 0 for error in theirs)), f"{statistics.median(ours):.2f} %", f"{max(ours):.2f} %"])
    return table(rows)


def verdict(trial: dict) -> str:
    gradients = trial["gradients"]
    return "reference" if gradients["against"] == trial["strategy"] else "equal" if gradients["equal"] else "differ"


def compared(trial: dict) -> str:
    return verdict(trial) if verdict(trial) == "reference" else f"{verdict(trial)} to {trial['gradients']['against']}"


def offloaded_states(folder: Path) -> str:
    """Parameters and optimizer states in host memory, beside the same sweep's resident step."""
    rows = [["batch", "clipping", "moments", "allocator", "cap, GiB", "strategy", "ms", "× resident", "allocated, GiB", "on the device, GiB", "host memory, GiB",
             "gradients"]]
    runs = (("without-clipping", 4, "no", "bf16", "default", ""), ("capped", 4, "no", "bf16", "default", "16"),
            ("growing", 4, "no", "bf16", "growing", ""),
            ("planned", 4, "no", "bf16", "growing", "24"), ("planned-24", 4, "no", "bf16", "growing", ""), ("batch-8", 8, "no", "bf16", "growing", ""),
            ("float32", 4, "no", "float32", "growing", ""), ("clipped", 4, "yes", "bf16", "default", ""))
    for name, *settings in runs:
        found = trials(folder / f"{name}.json")
        base = ms(found[0]) if name not in ("capped", "planned") else None  # no resident step has room
        for trial in found:
            rows.append([*map(str, settings), f"`{trial['strategy']}`", f"{ms(trial):.0f}", f"{ms(trial) / base:.3f}" if base else "",
                         f"{peak(trial):.2f}", f"{peak(trial, 'device'):.2f}", f"{trial['host_bytes'] / GIB:.1f}",
                         verdict(trial)])
    return table(rows)


def ladder(folder: Path) -> str:
    """Plans for budgets from one recorded step: predicted, and measured without a cap, or under one."""
    base = trials(folder / "ladder-base.json")
    guesses = {"24": [trial["predicted"] for trial in base if "plan" in trial["strategy"]][0]}
    for line in (folder / "ladder-predicted.txt").read_text().splitlines():
        budget, _, step, _, _, allocated, _, device, *_ = line.split()
        guesses[budget] = {"step_ms": float(step), "peak_bytes": float(allocated) * GIB, "required_bytes": float(device) * GIB}
    full = [trial for trial in base if trial["strategy"] == "checkpoint:full"][0]
    rows = [["budget, GiB", "cap, GiB", "ms", "× resident", "predicted", "allocated, GiB", "predicted", "on the device, GiB", "predicted", "gradients"],
            ["`checkpoint:full`", "", f"{ms(full):.0f}", "1.000", "", f"{peak(full):.2f}", "", f"{peak(full, 'device'):.2f}", "", compared(full)]]
    runs = [("24", "24", trial) for trial in base if "plan" in trial["strategy"]]
    for name, cap in (("free", ""), ("19", "19"), ("12", "12")):
        runs += [(trial["strategy"].removeprefix("p"), cap, trial) for trial in trials(folder / f"ladder-{name}.json")]
    for budget, cap, trial in sorted(runs, key=lambda run: (-int(run[0]), run[1])):
        guess = guesses[budget]
        error = lambda value, truth: f"{100 * (value / truth - 1):+.1f} %"
        rows.append([budget, cap, f"{ms(trial):.0f}", f"{ms(trial) / ms(full):.3f}", error(guess["step_ms"], ms(trial)),
                     f"{peak(trial):.2f}", error(guess["peak_bytes"], peak(trial) * GIB), f"{peak(trial, 'device'):.2f}",
                     error(guess["required_bytes"], peak(trial, "device") * GIB),
                     compared(trial)])
    return table(rows)


def trainer_loops(folder: Path) -> str:
    """transformers' Trainer and a plain loop with everything on the GPU and under the exported plan."""
    runs = [json.loads(line) for line in (folder / "trainer.jsonl").read_text().splitlines()]
    first = next(run for run in runs if run["trainer"])
    rows = [["what", "plan", "steps", "ms", "allocated, GiB", "largest difference of a loss to the first line"]]
    for trial in trials(folder / "trainer-trial.json"):
        rows.append(["memtune's trial", "yes" if "states" in trial["strategy"] else "no", "5", f"{ms(trial):.0f}", f"{peak(trial):.2f}", ""])
    for run in runs:
        apart = max(abs(a - b) for a, b in zip(run["losses"], first["losses"])) if run["trainer"] else None
        rows.append(["Trainer" if run["trainer"] else "loop", "yes" if run["plan"] else "no", str(len(run["losses"])),
                     f"{run['ms']:.0f}", f"{run['allocated_gib']:.2f}", f"{apart:.5f}" if apart is not None else ""])
    return table(rows)


def adapters_70b(folder: Path) -> str:
    """An adapter over frozen 4-bit weights that are in host memory."""
    rows = [["strategy", "ms", "tokens/s", "allocated, GiB", "on the device, GiB", "host memory, GiB"]]
    for trial in trials(folder / "adapters-70b.json"):
        rows.append([f"`{trial['strategy']}`", f"{ms(trial):.0f}", f"{trial['tokens_per_s']:.0f}", f"{peak(trial):.2f}",
                     f"{peak(trial, 'device'):.2f}", f"{trial['host_bytes'] / GIB:.1f}"])
    return table(rows)


def state_loops(folder: Path) -> str:
    """The exported plan in a plain loop, beside memtune's trial and a loop with everything on the device."""
    rows = [["call", "what", "clipping", "micro-batches", "ms", "allocated, GiB"]]
    for line in (folder / "loops.jsonl").read_text().splitlines():
        run = json.loads(line)
        what = "memtune's trial" if run.get("trial") else "loop under the plan" if run["plan"] else "loop, all on the GPU"
        rows.append([str(run["call"]), what, "yes" if run.get("clip") else "no", str(run.get("accumulate", 1)),
                     f"{run['ms']:.0f}", f"{run['allocated_gib']:.2f}"])
    return table(rows)


FOUR, STATES, CAPS, CARDS = "h200-x4", "h100-saves", "h100-caps", "h200-caps"  # beside the folder of one GPU
BLOCKS: Dict[str, Callable[[Path], str]] = {
    "setup": setup, "transcript": transcript, "budgets": budgets, "beside": beside, "predicted": predicted, "fixed": fixed,
    "peers": peers, "spread": spread}
BLOCKS |= {name: lambda folder, make=make: make(folder.parent / STATES)
           for name, make in {"saves-setup": saves_setup, "disk": disk, "saves": saves}.items()}
BLOCKS["models"] = lambda folder: models(folder.parent / "h200-models")
BLOCKS["causes"] = lambda folder: causes(folder.parent / "h200-oom")
BLOCKS["commands"] = lambda folder: commands(folder.parent / "h200-commands")
BLOCKS["commands-quiet"] = lambda folder: commands(folder.parent / "h200-commands-quiet")
BLOCKS["commands-tune"] = lambda folder: commands(folder.parent / "h200-commands-tune")
BLOCKS["presets"] = lambda folder: presets(folder.parent / "h200-presets")
BLOCKS["fit"] = lambda folder: fit(folder.parent / "h200-fit")
BLOCKS["one-more"] = lambda folder: one_more(folder.parent / "h200-fit")
BLOCKS["calculators"] = lambda folder: calculators(folder.parent / "h200-fit")
BLOCKS["largest"] = lambda folder: largest(folder.parent / "h200-fit")
BLOCKS["recommended"] = lambda folder: recommended(folder.parent / "h200-fit")
BLOCKS["offloaded-states"] = lambda folder: offloaded_states(folder.parent / "h200-states")
BLOCKS["ladder"] = lambda folder: ladder(folder.parent / "h200-states")
BLOCKS["trainer-loops"] = lambda folder: trainer_loops(folder.parent / "h200-states")
BLOCKS["adapters-70b"] = lambda folder: adapters_70b(folder.parent / "h200-states")
BLOCKS["state-loops"] = lambda folder: state_loops(folder.parent / "h200-states")
BLOCKS["smallest"] = lambda folder: smallest(folder.parent / CAPS)
BLOCKS |= {name: lambda folder, make=make: make(folder.parent / CARDS)
           for name, make in {"card": card, "card-errors": card_errors}.items()}
BLOCKS |= {name: lambda folder, make=make: make(folder.parent / FOUR)
           for name, make in {"sharded": sharded, "links": links, "rank-saves": rank_saves}.items()}


def pattern(name: str) -> re.Pattern:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- /{name} -->)", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--raw", type=Path, default=RAW / "h100", help="folder of the answers")
    options = parser.parse_args()
    texts = {path: path.read_text() for path in DOCUMENTS}
    wrong = []
    for name, make in BLOCKS.items():
        block = make(options.raw)
        found = [there for text in texts.values() for there in pattern(name).findall(text)]
        if options.write:
            texts = {path: pattern(name).sub(lambda _: block, text) for path, text in texts.items()}
        if not (options.write or options.check):
            print(f"<!-- {name} -->\n{block}\n<!-- /{name} -->\n")
        if not found or not options.write and any(there != block for there in found):
            wrong.append(name)
    if options.write:
        for path, text in texts.items():
            path.write_text(text)
    private = [path for path in sorted(RAW.rglob("*.json*")) if options.check and MACHINE_PATH.search(path.read_text())]
    for path in private:
        print(f"{path.relative_to(HERE)} has a path of the machine that wrote it: write FOLDER", file=sys.stderr)
    if wrong and (options.write or options.check):
        print(f"not in the documents as {options.raw} has it: {', '.join(wrong)}; --write puts it in", file=sys.stderr)
        return 1
    return 1 if private else 0


if __name__ == "__main__":
    sys.exit(main())
