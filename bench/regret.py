"""Measures how far the planner's plan is from the best one. Runs every plan of a small model's space, and the planner's
own plans under several budgets, in one sweep with interleaved rounds.

    python3 bench/regret.py FOLDER                       # a decoder of two blocks, 36 plans
    python3 bench/regret.py FOLDER --device cpu

The space has the planner's options, at most --most of them per block. The regret of a budget is the measured time of
its plan divided by the shortest measured time among plans whose measured peak fits it. Medians of single runs vary by
chance, and the minimum of many is biased. "again" measures only the two, interleaved, and is the figure that counts.
"""

import argparse
import json
import os
import shlex
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_act": "silu",
         "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
SIZES = {"cuda": {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16, "num_key_value_heads": 16,
                  "vocab_size": 8192, "max_position_embeddings": 4096},
         "cpu": {"hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4, "num_key_value_heads": 4,
                 "vocab_size": 512, "max_position_embeddings": 512}}
FLAGS = {"cuda": "--batch 4 --seq 4096 --dtype bf16", "cpu": "--batch 4 --seq 256"}


def sweep(options, run: Path, *flags: str) -> dict:
    answer = run.with_suffix(".json")
    command = shlex.split(options.memtune) + [
        "sweep", "-q", "--model", str(options.folder / "model"), *FLAGS[options.device].split(), "--device", options.device,
        "--warmup", "3", "--steps", str(options.steps), "--out", str(run), "--json", str(answer), *flags]
    with open(run.with_suffix(".log"), "w") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
    if not answer.exists():
        raise SystemExit(f"{shlex.join(command)} ended with {code}; {log.name} says why")
    return {trial["strategy"]: trial for trial in json.loads(answer.read_text())["trials"] if trial["outcome"] == "ok"}


def peak(trial: dict) -> int:
    return trial["peak_bytes"]["allocated"]


def ms(trial: dict) -> float:
    return trial["step_ms"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    parser.add_argument("--every-plan", default=str(HERE.parent / "build" / "ci" / "bin" / "memtune-every-plan"))
    parser.add_argument("--device", default="cuda", choices=SIZES)
    parser.add_argument("--most", type=int, default=6, help="ways for each block")
    parser.add_argument("--budgets", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()

    folder = options.folder
    if folder.exists():
        raise SystemExit(f"{folder} is there already: a run of before is not measured on")
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text(json.dumps(LLAMA | SIZES[options.device]))
    none = sweep(options, folder / "none", "--strategy", "none", "--rounds", "1")["none"]
    costs, = (folder / "none" / "trials").glob("*/costs.json")
    (folder / "plans").mkdir()
    subprocess.run([options.every_plan, costs, folder / "none" / "sweep.json", str(options.most), folder / "plans"], check=True)

    def plan(budget: int) -> dict:
        file = folder / "plans" / f"planned-{budget}.json"
        told = subprocess.run([*shlex.split(options.memtune), "plan", "--from", str(folder / "none"), "--budget", f"{budget}B",
                               "--write", str(file), "--json", "-"], check=True, capture_output=True, text=True).stdout
        return json.loads(told)

    least = plan(peak(none))["least_bytes"]
    budgets = [least + (peak(none) - least) * i // options.budgets for i in range(options.budgets)]
    names = {budget: f"planned-{budget}" for budget in budgets}
    for budget in budgets:
        plan(budget)
    files = [part for file in sorted((folder / "plans").glob("choice-*.json")) for part in ("--plan", str(file))]
    files += [part for budget in budgets for part in ("--plan", str(folder / "plans" / f"planned-{budget}.json"))]
    measured = sweep(options, folder / "all", *files, "--rounds", str(options.rounds), "--strategy", "none")

    print(f"{len(measured)} plans measured; none {ms(measured['none']):.2f} ms, {peak(measured['none'])} bytes\n")
    print("| budget bytes | plan ms | best ms | best | regret | again: plan | best | regret |\n" + "|---" * 8 + "|")
    for i, budget in enumerate(budgets):
        ours = measured[names[budget]]
        fitting = [trial for trial in measured.values() if peak(trial) <= budget]
        if ours not in fitting:
            print(f"| {budget} | {ms(ours):.2f} | - | its peak is {peak(ours)} | - | - | - | - |")
            continue
        best = min(fitting, key=ms)
        cells = [str(budget), f"{ms(ours):.2f}", f"{ms(best):.2f}", best["strategy"],
                 f"{100 * (ms(ours) / ms(best) - 1):.2f} %"]
        if best is not ours:
            rival = folder / "plans" / f"{best['strategy']}.json"
            chosen = ["--plan", str(rival)] if rival.exists() else ["--strategy", best["strategy"]]
            both = sweep(options, folder / f"again-{i}", "--plan", str(folder / "plans" / f"planned-{budget}.json"), *chosen,
                         "--rounds", str(4 * options.rounds))
            pair = ms(both[names[budget]]), ms(both[best["strategy"]])
            cells += [f"{pair[0]:.2f}", f"{pair[1]:.2f}", f"{100 * (pair[0] / pair[1] - 1):.2f} %"]
        else:
            cells += ["-"] * 3
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
