"""Checks on one GPU that memtune names the cause when a training command runs out of device memory, and that the
setting that it recommends works.

    python3 bench/oom_causes.py FOLDER                      # every failure of CASES, six at a time
    python3 bench/oom_causes.py FOLDER --fix                # each again with the change that memtune recommends
    python3 bench/oom_causes.py FOLDER leak_of_features --fix
    python3 bench/oom_causes.py FOLDER --only-list LIST     # failures that others wrote
    python3 bench/oom_causes.py FOLDER --device meta --fix  # without a GPU: played.py counts bytes

The scripts in oom/ limit themselves to a small card. A case has the causes that are right for it, the best one first,
and what a user changes for each remedy: flags behind the command, or a variable. The first remedy that a case has a
change for is tried. A run ends well if it trained to the end.

LIST is a JSON list of {"script", "kind", "cause", "fix_command"}, relative to its folder. "script" may have arguments.
The text of memtune is printed as well, and fix_command runs.

FOLDER/NAME holds memtune's answer, its text, and the output of the changed command. FOLDER/results.jsonl has a line for
each case. The exit code is 1 if a cause is wrong or a change does not help.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "oom"
CHECKPOINT = {"checkpointing": "--checkpoint"}
BATCH = {"--batch-size": "--accumulation 2"}
NO_GRAD = {"under torch.no_grad()": "--no-grad"}
ON_CPU = {"CPU": "--on-cpu"}
SMALLER_STATES = {"smaller states": "--optimizer adafactor"}
SHORTER = {"limit the length of rows": "--max-length 512"}


class Case(NamedTuple):
    command: str  # script in oom/ and its arguments
    causes: str  # of json.md, the best one first; an outcome if there is no cause
    changes: Dict[str, str]  # part of a remedy: what a user changes then
    held_gib: Optional[float] = None  # a second process leaves so much of the card; such a case runs alone


RAW, LIBRARIES = "raw.py", "libraries.py"
CASES = {
    "batch_too_large": Case(f"{RAW} plain --batch-size 24", "activations", CHECKPOINT | BATCH),
    "memory_fraction": Case(f"{RAW} plain --batch-size 8 --memory-fraction 0.5", "activations", CHECKPOINT | BATCH),
    "float32_without_autocast": Case(f"{LIBRARIES} long_context --batch-size 4 --length 2048", "activations",
                                     CHECKPOINT | BATCH),
    "deep_model": Case(f"{RAW} deep --batch-size 16", "activations", CHECKPOINT | BATCH),
    "large_images": Case(f"{RAW} images --batch-size 3", "activations", CHECKPOINT),
    "timm_vit": Case(f"{LIBRARIES} vit --batch-size 112", "activations", {"set_grad_checkpointing": "--checkpoint"}),
    "trainer_batch": Case("trainer.py --output_dir {folder}/trainer --per_device_train_batch_size 32 --max_steps 5 "
                          "--report_to none --save_strategy no", "activations",
                          {"--gradient_checkpointing True": "--gradient_checkpointing True"}),
    "lora_long_sequence": Case(f"{LIBRARIES} lora --batch-size 1 --length 12288 --dtype bfloat16", "activations",
                               CHECKPOINT),
    "one_backward_for_micro_batches": Case(f"{RAW} one_backward --batch-size 3", "activations",
                                           CHECKPOINT | {"backward": "--accumulation 2"}),
    "long_row": Case(f"{RAW} long_row --batch-size 5", "longer_batch", SHORTER | CHECKPOINT),
    "lora_long_row": Case(f"{LIBRARIES} lora_long_row --batch-size 1 --dtype bfloat16", "longer_batch",
                          {"limit the length of rows": "--max-length 1024"} | CHECKPOINT),
    "curriculum": Case(f"{RAW} curriculum --batch-size 5 --steps 10", "longer_batch", SHORTER | CHECKPOINT),
    "large_vocabulary": Case(f"{RAW} vocabulary --batch-size 8", "loss", {"in chunks": "--loss chunked"}),
    "eager_scores": Case(f"{RAW} long_attention --batch-size 8 --length 2048 --attention eager", "attention",
                         {"matrix of scores": "--attention sdpa"}),
    "eager_attention_of_transformers": Case(
        f"{LIBRARIES} eager_attention --batch-size 8 --length 2048 --attention eager", "attention",
        {"attn_implementation": "--attention sdpa"}),
    "leak_of_metrics": Case(f"{RAW} metrics --batch-size 4 --steps 18", "leak", {"total += loss.item()": "--detach"}),
    "leak_of_features": Case(f"{RAW} features --batch-size 16 --length 2048 --steps 14 --checkpoint", "leak", ON_CPU),
    "leak_by_hooks": Case(f"{RAW} hooks --batch-size 8 --steps 24", "leak", ON_CPU),
    "snapshots_of_weights": Case(f"{RAW} snapshots --steps 12", "leak kept_tensors", ON_CPU),
    "varied_sizes": Case(f"{RAW} varied_sizes --memory-gib 6", "fragmentation",
                         {"expandable_segments:True": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}),
    "evaluation_with_gradients": Case(f"{RAW} evaluation", "evaluation_with_gradients", NO_GRAD),
    "validation_in_training_mode": Case(f"{RAW} validation_in_training_mode --batch-size 3 --steps 8",
                                        "evaluation_with_gradients", NO_GRAD),
    "large_evaluation": Case(f"{RAW} large_evaluation --evaluation-batch-size 48", "evaluation_batch",
                             {"smaller batch for evaluation": "--evaluation-batch-size 4"}),
    "generation": Case(f"{LIBRARIES} generation --evaluation-batch-size 96", "evaluation_batch",
                       {"smaller batch for evaluation": "--evaluation-batch-size 8"}),
    "outputs_of_evaluation": Case(f"{RAW} outputs", "kept_outputs", ON_CPU),
    "reference_model": Case(f"{RAW} reference --batch-size 6", "loaded_twice", ON_CPU),
    "average_of_weights": Case(f"{RAW} average --batch-size 6", "loaded_twice", ON_CPU),
    "teacher_with_gradients": Case(f"{RAW} teacher --batch-size 16", "untrained_with_gradients", NO_GRAD),
    "first_update": Case(f"{RAW} first_update", "first_update", SMALLER_STATES),
    "second_step": Case(f"{RAW} second_step --batch-size 6", "states", SMALLER_STATES),
    "float32_gradients": Case(f"{RAW} float32_gradients", "first_update states", SMALLER_STATES),
    "data_on_card": Case(f"{RAW} data_on_card --batch-size 448", "kept_tensors", ON_CPU),
    "pinned_memory": Case(f"{RAW} pinned", "host_oom", {"page-locked": "--on-cpu"}),
    "second_process": Case(f"{RAW} plain --batch-size 16 --memory-gib 0", "other_process",
                           {"end the other process": ""}, held_gib=6),
}
NOT_PLAYED = ("pinned_memory", "second_process", "trainer_batch")  # by played.py


class Holder:
    """A second process on the GPU."""

    def __init__(self, leave_gib: float):
        self.process = subprocess.Popen([sys.executable, SCRIPTS / RAW, "hold", "--memory-gib", str(leave_gib)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout
        self.process.stdout.readline()  # it holds the memory now

    def end(self) -> None:
        self.process.communicate()


def profile(command: List[str], folder: Path, options, where: Optional[Path] = None) -> Tuple[dict, str]:
    """The row of a command under `memtune profile`, and memtune's text."""
    answer = folder / "answer.json"
    measure = [options.memtune, "profile", "--warmup", "1", "--steps", "200", "--timeout", f"{options.limit}s"]
    done = subprocess.run([*measure, "--out", folder / "run", "--json", answer, "--", *command], cwd=where or folder,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (folder / "text.txt").write_text(done.stdout)
    trials = json.loads(answer.read_text())["trials"] if answer.exists() else []
    return (trials[0] if trials else {"outcome": f"no answer, exit code {done.returncode}"}), done.stdout


def ends_well(command: List[str], folder: Path, options, environment: Dict[str, str] = {},
              where: Optional[Path] = None, words: str = "") -> bool:
    """Whether a changed command ends with exit code 0 and prints the words."""
    with open(folder / "changed.txt", "w") as file:
        try:
            code = subprocess.run(command, env={**os.environ, **environment}, cwd=where or folder, stdout=file,
                                  stderr=subprocess.STDOUT, timeout=options.limit).returncode
        except subprocess.TimeoutExpired:
            return False
    return code == 0 and words in (folder / "changed.txt").read_text()


def remedies_of(row: dict) -> List[str]:
    if row["outcome"] == "ok" and row["allocator"]:  # memtune's own second start works
        return [f"PYTORCH_CUDA_ALLOC_CONF={row['allocator']}"]
    return row.get("oom", {}).get("remedies") or [row.get("reason", "")]


def judged(name: str, causes: str, row: dict) -> dict:
    oom = row.get("oom", {})
    found = oom.get("cause", row["outcome"])
    if found == "ok" and row["allocator"]:
        found = "fragmentation"
    return {"name": name, "expected": causes.split(), "found": found, "right": found in causes.split(),
            "step": oom.get("step"), "phase": oom.get("phase"), "remedy": remedies_of(row)[0]}


def change_for(remedies: List[str], changes: Dict[str, str]) -> Optional[Tuple[str, str]]:
    """The first remedy that a user can follow, and the change."""
    return next(((remedy, change) for remedy in remedies for part, change in changes.items() if part in remedy), None)


def run_case(name: str, options) -> dict:
    case, folder = CASES[name], options.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    script, *arguments = shlex.split(case.command.replace("{folder}", str(folder)))
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    if options.device != "cuda":
        command += ["--device", options.device]
    holder = Holder(case.held_gib) if case.held_gib is not None else None
    try:
        row, _ = profile(command, folder, options)
    finally:
        if holder:
            holder.end()
    result = judged(name, case.causes, row)
    chosen = change_for(remedies_of(row), case.changes)
    if options.fix:
        variables = shlex.split(chosen[1]) if chosen else []
        environment = dict(each.split("=", 1) for each in variables if not each.startswith("-") and "=" in each)
        flags = [each for each in variables if each.split("=")[0] not in environment]
        result["tried"], result["change"] = chosen or (None, None)
        result["fixed"] = chosen is not None and ends_well([*command, *flags], folder, options, environment,
                                                           words="trained to the end")
    return result


def run_listed(number: int, entry: dict, options) -> dict:
    """A failure that somebody else wrote."""
    name = f"{number}-{entry['kind'].replace(' ', '_').replace('/', '_')}"
    folder, where = options.folder / name, options.only_list.resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    row, text = profile([sys.executable, *shlex.split(entry["script"])], folder, options, where)
    change = entry["fix_command"]
    fixed = ends_well(["bash", "-c", change if isinstance(change, str) else shlex.join(change)], folder,
                      options, {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}, where)
    return {**judged(name, entry["cause"], row), "change": change, "fixed": fixed, "text": text}


def table(results: List[dict]) -> str:
    """In Markdown."""
    lines = ["| failure | step, phase | memtune's cause | right one | first remedy | tried | trains then |",
             "|---|---|---|---|---|---|---|"]
    for each in results:
        fixed = {True: "yes", False: "no", None: ""}[each.get("fixed")]
        right = "" if each["right"] else " or ".join(each["expected"])
        change = each.get("change") or ""
        at = f"{each['step'] or ''} {each['phase'] or ''}".strip()
        cells = [each["name"], at, each["found"], right, each["remedy"], f"`{change}`" if change else "", fixed]
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def summary(results: List[dict]) -> str:
    words = [f"{sum(each['right'] for each in results)} of {len(results)} causes are right"]
    tried = [each for each in results if "fixed" in each]
    if tried:
        words.append(f"{sum(each['fixed'] for each in tried)} of {len(tried)} train after the change")
    return "; ".join(words)


def run_all(options) -> List[dict]:
    lock, results = threading.Lock(), {}

    def take(key, run, *arguments) -> None:
        try:
            result = run(*arguments, options)
        except Exception as error:  # of one case; the others go on
            result = {"name": str(key), "expected": [], "found": f"{type(error).__name__}: {error}", "right": False,
                      "step": None, "phase": None, "remedy": ""}
        with lock, open(options.folder / "results.jsonl", "a") as file:
            results[key] = result
            text = result.pop("text", "")
            print(text + json.dumps(result), flush=True)
            file.write(json.dumps(result) + "\n")

    with ThreadPoolExecutor(options.jobs) as pool:
        if options.only_list:
            for number, entry in enumerate(json.loads(options.only_list.read_text()), 1):
                pool.submit(take, number, run_listed, number, entry)
        else:
            for name in options.names:
                if CASES[name].held_gib is None:
                    pool.submit(take, name, run_case, name)
    if not options.only_list:
        for name in options.names:
            if CASES[name].held_gib is not None:
                take(name, run_case, name)
    return [results[key] for key in (options.names if not options.only_list else sorted(results))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--limit", type=int, default=120, help="seconds of a run; a played card is slow")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--only-list", type=Path, metavar="LIST")
    parser.add_argument("--device", choices=["cuda", "meta"], default="cuda")
    options = parser.parse_intermixed_args()
    unknown = set(options.names) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    options.names = options.names or [name for name in CASES if options.device == "cuda" or name not in NOT_PLAYED]
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "results.jsonl").unlink(missing_ok=True)
    results = run_all(options)
    print(f"\n{table(results)}\n\n{summary(results)}")
    return 0 if all(each["right"] and each.get("fixed", True) for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
