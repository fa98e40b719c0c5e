"""Checks what memtune says of a training command, and what measuring costs: runs scripts plain and under `memtune
profile -- ...` in turns, on one GPU, and compares memtune's answer with the scripts' own figures.

    python bench/command_records.py FOLDER                       # all workloads of bench/commands/recorded.py
    python bench/command_records.py FOLDER gpt2 lora --rounds 2
    python bench/command_records.py FOLDER --table               # prints the tables of an earlier run
    python bench/command_records.py FOLDER --device cpu          # tiny models: what needs CUDA is named as not run

| check | memtune's | the script's | at most |
|---|---|---|---|
| cost | time of the measured steps under memtune, by the script's own events | the same steps in the plain runs | 2 % |
| losses | of the steps under memtune | of the plain runs: equal, or as far apart as these are from each other | |
| owners | sum of memory by owner at the peak, and without rounding | max_memory_allocated, and bytes asked for | 1 % |
| lasting | parameters, gradients, optimizer states at the end of that step | bytes of their storages | 0 |
| shares | of a step's time | its own events around data, passes, evaluation and update, in the plain runs | 2 points |
| profiler | of a step's time | ranges under torch.profiler, of the device's stream, unless it slows a step by more than 5 % | 2 points |
| modules | activations by module at the peak | blocks by their Python stacks, of such a step of a plain run | 5 % |
| paths | bytes by call path at the peak, beside what lasts | the same blocks | 5 % |

The last measured step is in no cost: tracing begins in it. The traced steps are named apart. FOLDER/NAME is replaced
and gets the scripts' figures, memtune's answers and logs; FOLDER/records.jsonl has a line for each workload. The first
plain run also takes the steps of the checks, behind the timed ones. Exit code 1 if a check fails.
"""

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
NEEDS = {"gpt2": (), "bench": (), "vit": ("timm",), "lora": ("transformers", "peft", "accelerate"),
         "unet": ("diffusers", "peft"), "tune": ("torchtune",)}
WARMUP, TRACED = 4, 2  # steps
LIMITS = {"cost": 0.02, "owners": 0.01, "lasting": 0, "shares": 0.02, "profiler": 0.02, "modules": 0.05, "paths": 0.05}
TIMES = ("cost", "shares", "profiler")
SLOWED = 1.05  # a profiled step, in plain ones: beyond that its shares are those of another step
KINDS = ("data", "forward", "backward", "update", "evaluation", "generation", "save", "rest")
LASTING = ("parameters", "gradients", "optimizer", "buffers")
OMITTED = ("module.py:", "memtune_", "sitecustomize.py:")  # frames that hooks add
LISTED = 20  # modules in memtune's answer
TIMEOUT_S = 150  # of a process


# --- runs


def run(words: list, log: Path) -> float:
    began = time.monotonic()
    with open(log, "w") as file:
        file.write(f"$ {shlex.join(words)}\n")
        file.flush()
        try:
            done = subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no end after {TIMEOUT_S} s:\n{log.read_text(errors='replace')[-1500:]}") from None
    if done.returncode != 0:
        raise RuntimeError(f"ended with {done.returncode}:\n{log.read_text(errors='replace')[-1500:]}")
    return time.monotonic() - began


def measure(name: str, folder: Path, options) -> None:
    """Files of each round: plain-N.json and under-N.json by the script, answer-N.json by memtune."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    took = {"plain": [], "memtune": []}
    script = [sys.executable, str(HERE / "commands" / "recorded.py"), name, "--device", options.device]
    for i in range(options.rounds):
        plain = [*script, "--out", str(folder / f"plain-{i}.json"), "--steps", str(WARMUP + options.steps + 1 + TRACED)]
        took["plain"].append(run(plain + (["--checks"] if i == 0 else []), folder / f"plain-{i}.txt"))
        under = [*script, "--out", str(folder / f"under-{i}.json"), "--steps", "100000"]  # until memtune ends it
        took["memtune"].append(run([*shlex.split(options.memtune), "profile", "--warmup", str(WARMUP), "--steps",
                                    str(options.steps), "--out", str(folder / f"memtune-{i}"), "--json",
                                    str(folder / f"answer-{i}.json"), "-q", "--", *under], folder / f"under-{i}.txt"))
    (folder / "took.json").write_text(json.dumps(took))


def read(path: Path) -> dict:
    if not path.exists():
        raise RuntimeError(f"there is no {path.parent.name}/{path.name}")
    return json.loads(path.read_text())


# --- comparisons


def cost(plain: list, under: list, last_measured: int) -> dict:
    """Of each step the least of the rounds counts. `apart` is the cost, of whole steps or of their work."""
    took = min(len(each["spans"]) for each in plain + under)
    steps = range(WARMUP, min(last_measured - 1, took))  # numbers from 0

    def least(runs, what, numbers=steps):
        return sum(min(each["spans"][k][what] for each in runs) for k in numbers)

    found = {"steps": [steps[0] + 1, steps[-1] + 1]}
    for what in ("step", "work"):
        found[what] = {"plain_ms": least(plain, what) / len(steps), "memtune_ms": least(under, what) / len(steps),
                       "apart": least(under, what) / least(plain, what) - 1}
        if len(plain) > 1:
            found[what]["plain_apart"] = least(plain[:1], what) / least(plain[1:], what) - 1
    found["apart"] = max(found[what]["apart"] for what in ("step", "work"))
    first = last_measured + 1  # traced, from 0: the one before it does not count
    if first + 1 < took:
        found["traced_step"] = least(under, "step", [first]) / least(plain, "step", [first]) - 1
        found["memory_step_passes"] = least(under, "passes", [first + 1]) / least(plain, "passes", [first + 1]) - 1
    return found


def largest_apart(runs: list, others: list):
    """Over the steps that two runs both took; None without a pair."""
    return max((abs(a - b) for one in runs for other in others if one is not other
                for a, b in zip(one["losses"], other["losses"])), default=None)


def losses(plain: list, under: list) -> dict:
    apart, repeats = largest_apart(plain, under), largest_apart(plain, plain)
    words = "equal" if apart == 0 else "differ" if not repeats else "as plain runs"
    return {"compared": min(len(each["losses"]) for each in plain + under), "apart": apart, "plain_apart": repeats,
            "words": words, "good": apart <= 2 * (repeats or 0)}


def owners(memory: dict, plain: dict, under: dict) -> dict:
    """`rounding` fills the sum up to the peak, so the others are compared with the bytes that were asked for."""
    sizes = {each["kind"]: each["peak_bytes"] for each in memory["owners"]}
    total, rounding, step = sum(sizes.values()), sizes.get("rounding", 0), memory["step"] - 1
    own, requested = under["peaks"][step]
    found = {"sum": total, "script": own, "allocator": memory["measured_bytes"], "without_rounding": total - rounding,
             "requested": requested, "apart": max(abs(total / own - 1), abs((total - rounding) / requested - 1))}
    if step < len(plain["peaks"]):
        found["plain_script"] = plain["peaks"][step][0]
    return found


def lasting(memory: dict, under: dict) -> dict:
    told = {each["kind"]: each["end_bytes"] for each in memory["owners"]}
    pairs = {kind: [told.get(kind, 0), size] for kind, size in under["lasting"].items()}
    return {"bytes": pairs, "apart": max(abs(a - b) for a, b in pairs.values())}


def own_shares(plain: list, last_measured: int) -> dict:
    """Of the measured steps of all plain runs, by the scripts' own events."""
    sums = {}
    for run in plain:
        for span in run["spans"][WARMUP:last_measured]:
            parts = {"data": span["step"] - span["work"], "update": span["work"] - span["passes"], **span["ranges"]}
            for kind, took in [*parts.items(), ("rest", span["step"] - sum(parts.values()))]:
                sums[kind] = sums.get(kind, 0) + took
    whole = sum(sums.values())
    return {kind: took / whole for kind, took in sums.items()}


def shares(told: dict, own: dict) -> dict:
    kinds = [kind for kind in KINDS if max(told[kind], own.get(kind, 0)) > 0]
    pairs = {kind: [told[kind], own.get(kind, 0)] for kind in kinds}
    worst = max(pairs, key=lambda kind: abs(pairs[kind][0] - pairs[kind][1]))
    return {"pairs": pairs, "worst": worst, "apart": abs(pairs[worst][0] - pairs[worst][1])}


def differences(told: dict, own: dict) -> dict:
    """The largest ones; `apart`: the sum of all, of the bytes."""
    rows = sorted(((name, told.get(name, 0), own.get(name, 0)) for name in {*told, *own}),
                  key=lambda row: (-abs(row[1] - row[2]), row[0]))
    total = max(1, sum(own.values()))
    return {"told": sum(told.values()), "own": sum(own.values()), "apart": sum(abs(a - b) for _, a, b in rows) / total,
            "largest": [row for row in rows if row[1] != row[2]][:8]}


def labels_of(classes: dict) -> dict:
    """One label for the classes that share a family of modules, as blocks of two kinds in a list."""
    labels = {name: name for names in classes.values() for name in names}
    for names in classes.values():
        joined = {labels[name] for name in names}
        if len(joined) > 1:
            label = " | ".join(sorted(joined))
            labels.update((name, label) for name, old in labels.items() if old in joined)
    return labels


def modules(memory: dict, plain: dict, stacks: str) -> dict:
    """By the class whose forward runs. memtune lists the largest families of modules: each of the others has at most as
    much as the least that is listed."""
    classes, labels = plain["classes"], labels_of(plain["classes"])
    own, told, unlisted = {}, {}, {}
    for name, size in plain["memory"]["modules"].items():
        if name:
            own[labels.get(name, name)] = own.get(labels.get(name, name), 0) + size
    listed = {each["name"]: each["saved_bytes"] for each in memory["modules"]}
    least = min((each["bytes"] for each in memory["modules"]), default=0) if len(listed) >= LISTED else 0
    for name, size in listed.items():
        label = labels[classes[name][0]] if name in classes else name
        told[label] = told.get(label, 0) + size
    for name, names in classes.items():
        if name not in listed:
            unlisted[labels[names[0]]] = unlisted.get(labels[names[0]], 0) + least
    # What the unlisted ones may have is no difference.
    within = {name: min(max(size, own.get(name, 0)), size + unlisted.get(name, 0))
              for name, size in [*told.items(), *((name, 0) for name in own if name not in told)]}
    found = {**differences(within, own), "told": sum(told.values()), "listed": len(listed), "least_listed": least,
             "outside_of_modules": plain["memory"]["modules"].get("", 0)}
    paths = {}
    for line in stacks.splitlines():
        path, size = line.rsplit(" ", 1)
        kind, *frames = path.split(";")
        frames = ";".join(each for each in frames if not each.startswith(OMITTED))
        if kind not in LASTING and frames != "<non-python>":
            paths[frames] = paths.get(frames, 0) + int(size)
    found["paths"] = differences(paths, plain["memory"]["paths"])
    found["plain_peak"] = [plain["memory"]["replayed"], plain["memory"]["measured"]]
    return found


def compare(name: str, folder: Path, options) -> dict:
    rounds = range(max(1, len(list(folder.glob("answer-*.json")))))
    plain, under, answers = ([read(folder / f"{kind}-{i}.json") for i in rounds]
                             for kind in ("plain", "under", "answer"))
    trial = answers[0]["trials"][0]
    if trial["outcome"] != "ok":
        raise RuntimeError(f"memtune: {trial['outcome']}: {trial['reason']}")
    memory = trial.get("memory")
    last_measured = (memory["step"] - TRACED - 1) if memory else WARMUP + options.steps
    found = {"workload": name, "device": answers[0].get("device", options.device), "rounds": len(rounds),
             "took_s": read(folder / "took.json"), "cost": cost(plain, under, last_measured),
             "losses": losses(plain, under)}
    if "time_shares" in trial:
        found["shares"] = shares(trial["time_shares"], own_shares(plain, last_measured))
        profile = plain[0]["profile"]
        found["profiler"] = {**shares(trial["time_shares"], profile["shares"]), "step_ms": profile["step_ms"],
                             "slowed": profile["step_ms"] / found["cost"]["step"]["plain_ms"]}
    if memory and not memory["saved_only"]:
        found["phase"], found["complete"] = memory["phase"], memory["complete"]
        found["owners"] = owners(memory, plain[0], under[0])
        found["lasting"] = lasting(memory, under[0])
        stacks = next((folder / "memtune-0").rglob(memory["paths"])).read_text() if memory["paths"] else ""
        found["modules"] = modules(memory, plain[0], stacks)
        found["paths"] = found["modules"].pop("paths")
    on_cpu = options.device == "cpu"  # its times mean little
    other_step = "profiler" in found and found["profiler"]["slowed"] > SLOWED
    checked = [check for check in LIMITS if check in found and not (on_cpu and check in TIMES)
               and not (other_step and check == "profiler")]
    found["checks"] = {**{check: found[check]["apart"] <= LIMITS[check] for check in checked},
                       "losses": found["losses"]["good"]}
    found["not_run"] = [check for check in LIMITS if check not in checked]
    return found


# --- tables


def percent(value: float, signed: bool = True) -> str:
    return f"{100 * value:{'+' if signed else ''}.2f} %"


def line(found: dict) -> str:
    step, work = found["cost"]["step"], found["cost"]["work"]
    cells = [found["workload"], f"{step['plain_ms']:.2f}", f"{step['memtune_ms']:.2f}", percent(step["apart"]),
             percent(work["apart"]), percent(step["plain_apart"]) if "plain_apart" in step else "-",
             found["losses"]["words"]]
    cells.append(percent(found["owners"]["apart"], False) if "owners" in found else "not run")
    cells.append(str(found["lasting"]["apart"]) if "lasting" in found else "not run")
    for check in ("shares", "profiler"):
        share = found.get(check)
        cells.append(f"{100 * share['apart']:.1f} ({share['worst']})" if share else "not run")
    cells += [percent(found[check]["apart"], False) if check in found else "not run" for check in ("modules", "paths")]
    cells.append(", ".join(check for check, good in found["checks"].items() if not good) or "none")
    return "| " + " | ".join(cells) + " |"


COLUMNS = ("workload", "plain ms", "memtune ms", "cost", "without data", "plain, 1st to rest", "losses", "owners off",
           "lasting off by bytes", "worst share, points", "by the profiler", "modules off", "paths off", "failed")


def details(found: dict) -> list:
    """What the table leaves out: every share, the traced steps, the largest differences."""
    lines = [f"## {found['workload']}", ""]
    if "traced_step" in found["cost"]:
        lines.append(f"Traced step: {percent(found['cost']['traced_step'])}; passes of the step whose memory is "
                     f"recorded: {percent(found['cost']['memory_step_passes'])}.")
    apart = found["losses"]
    lines.append(f"Losses of {apart['compared']} steps: at most {apart['apart']:.3g} apart, plain runs "
                 f"{'-' if apart['plain_apart'] is None else format(apart['plain_apart'], '.3g')}.")
    for check, whose in (("shares", "the script's events"), ("profiler", "the profiler")):
        if check in found:
            pairs = "; ".join(f"{kind} {100 * told:.1f} and {100 * own:.1f}"
                              for kind, (told, own) in found[check]["pairs"].items())
            lines.append(f"Shares in % by memtune and {whose}: {pairs}.")
    if "profiler" in found:
        lines.append(f"A profiled step took {found['profiler']['step_ms']:.2f} ms, {found['profiler']['slowed']:.2f} "
                     "times a plain one.")
    if "owners" in found:
        peaks = {key: round(value / MIB, 2) for key, value in found["owners"].items() if key != "apart"}
        lines.append(f"Peak in {found['phase']}, MiB: {peaks}.")
    for what in ("modules", "paths"):
        rows = found.get(what)
        if rows:
            lines += [f"Memory by {what}: {rows['told'] / MIB:.1f} and {rows['own'] / MIB:.1f} MiB, off by "
                      f"{percent(rows['apart'], False)}."]
            lines += [f"    {name[-160:] or '(no module)'}: {told / MIB:.2f} and {own / MIB:.2f} MiB"
                      for name, told, own in rows["largest"][:5]]
    if found["not_run"]:
        lines.append(f"Not run, not on a GPU, or slowed down by the profiler: {', '.join(found['not_run'])}.")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(NEEDS)}")
    parser.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=16, help="measured steps")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in NEEDS]:
        parser.error(f"no such workload: {', '.join(unknown)}")
    options.folder = options.folder.resolve()
    lines, more, good = [], [], True
    options.folder.mkdir(parents=True, exist_ok=True)
    with open(options.folder / "records.jsonl", "w") as records:
        for name in options.names or NEEDS:
            missing = [package for package in NEEDS[name] if importlib.util.find_spec(package) is None]
            try:
                if missing:
                    found = {"workload": name, "skipped": "no " + ", ".join(missing)}
                else:
                    if not options.table:
                        measure(name, options.folder / name, options)
                    found = compare(name, options.folder / name, options)
            except RuntimeError as failure:  # the next workload may work
                found = {"workload": name, "failed": str(failure)}
            text = json.dumps(found)
            records.write(text + "\n")
            records.flush()
            print(text, flush=True)
            if "checks" in found:
                lines.append(line(found))
                more += details(found)
                good &= all(found["checks"].values())
            else:
                lines.append(f"| {name} | " + ("skipped: " + found["skipped"] if missing else "failed") +
                             " |" * (len(COLUMNS) - 1))
                good &= bool(missing)
    table = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", *lines, "", *more]
    (options.folder / "table.md").write_text("\n".join(table))
    print("\n" + "\n".join(table))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
