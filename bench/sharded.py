"""Compares memtune --ranks with PyTorch's FSDP2 (fully_shard of each layer and of the model) in one run. Each rank has
its own GPU and batch. FSDP2 runs alone, over full checkpoints, with ms-swift's groups, with float32 shards gathered in
bf16 and reduced in float32 ("mixed"), and with shards and optimizer in CPU memory ("on-host").

    PYTHONPATH=PEERS python bench/sharded.py FOLDER                            # peers, strategies, budgets; prints a table
    PYTHONPATH=PEERS python bench/sharded.py FOLDER --only memtune --strategies none checkpoint:full
    python bench/sharded.py FOLDER --table                                     # from the records in FOLDER
    python bench/sharded.py FOLDER --device cpu                                # tiny, over Gloo, to check that it runs

`memtune plan --from` predicts the plans for the budgets from the recorded step of `none`, and one sweep runs them.
`sweep --budget` would also run the known strategies for each budget, and correct its predictions after a plan ran.
FOLDER gets the model, peers.jsonl, memtune.json, plan-N.json and plans.json. A row has the median time of the slowest
rank and the highest peak among the ranks. × none refers to FSDP2's `none` if that was measured.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import torch
import torch.distributed as dist

import eager
import peers
import strategies
from model import MODELS, build, dtype_of, loss_fn, make_batch

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
PEERS = ("none", "full", "swift", "swift+full", "mixed", "on-host")
# Flags of memtune for each peer.
WAYS = {"mixed": ("--shard-dtype", "float32", "--reduce-dtype", "float32"), "on-host": ("--shard-offload",)}
STRATEGIES = ("none", "checkpoint:full", "checkpoint:full,inputs=host", "checkpoint:cheap", "offload:group",
              "offload:stream")
COLUMNS = ("row", "by", "ms", "× none", "peak GiB", "collectives ms", "of it exposed", "copies hidden", "gradients",
           "step predicted", "peak predicted")


# --- FSDP2, one process per rank, started by torchrun -----------------------------------------------------------------

def shard(model: torch.nn.Module, name: str):
    """In the trainers' order: adds checkpoints, shards, then lets the engine find the sharded layers."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    how = {"mixed": {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)},
           "on-host": {"offload_policy": CPUOffloadPolicy()}}.get(name, {})
    if name == "full":
        strategies.checkpoint_layers(model.layers)
    for layer in model.layers:
        fully_shard(layer, **how)
    fully_shard(model, **how)
    if name.startswith("swift"):
        peers.load("swift").enable_activation_offloading(model, "fsdp2", name == "swift+full")


def measure_peer(name: str, options) -> Dict:
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if options.device == "cuda":
        torch.cuda.set_device(local)
        dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    else:
        dist.init_process_group("gloo")
    dtype = torch.float32 if name == "mixed" else dtype_of(options.dtype)
    model = build(options.model, options.length).to(dtype).to(options.device)
    shard(model, name)
    x, y = make_batch(model, options.batch, options.length, options.device, seed=rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=options.device == "cuda")

    def step() -> float:
        logits = model(x)
        loss = loss_fn(logits, y)
        del logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    own = eager.timed(step, options)
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, (own["step_ms"]["median"], own["peak_bytes"]))
    own["step_ms"]["median"] = max(ms for ms, _ in every)
    if own["peak_bytes"]:
        own["peak_bytes"]["allocated"] = max(peak["allocated"] for _, peak in every)
    return {"strategy": name, "package": strategies.package_of("none" if name in WAYS else name), **own}


def be_peer(name: str, options):
    try:
        row = measure_peer(name, options)
    except Exception as error:  # the other ranks may wait in a collective
        reason = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps({"strategy": name, "outcome": "error", "reason": reason}), flush=True)
        os._exit(1)
    if dist.get_rank() == 0:
        print(json.dumps(row), flush=True)
    dist.barrier()
    os._exit(0)


# --- all rows ---------------------------------------------------------------------------------------------------------

def peer_command(name: str, options) -> List[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(options.ranks), __file__, *sys.argv[1:],
            "--peer", name]


def with_threads(options) -> Dict[str, str]:
    """Gives each rank as many threads as memtune does, for an optimizer on the CPU. torchrun would give it one."""
    return {"OMP_NUM_THREADS": str(max(1, os.cpu_count() // options.ranks)), **os.environ}


def measure_collectives(name: str, options) -> Dict:
    """Overlap of a peer's collectives, from traced steps of a separate run under `memtune profile`."""
    answer = options.folder / f"profile-{name}.json"
    subprocess.run(shlex.split(options.memtune) + [
        "profile", "--json", str(answer), "--out", str(options.folder / f"profile-{name}"), "--warmup", "3", "--steps", "2",
        "--", *peer_command(name, options)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(answer.read_text())["trials"][0].get("communication", {}) if answer.exists() else {}


def measure_peers(options):
    with open(options.folder / "peers.jsonl", "a") as file:
        for name in options.peers:
            if options.device == "cpu" and (name.startswith("swift") or name == "on-host"):
                continue
            ended = subprocess.run(peer_command(name, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=with_threads(options))
            lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
            if not lines:
                print(f"{name}: {ended.stderr[-1500:]}", file=sys.stderr, flush=True)
                continue
            trial = json.loads(lines[0])
            if name in options.traced and options.device == "cuda":
                trial["communication"] = measure_collectives(name, options)
            print(json.dumps(trial), file=file, flush=True)


def sweep(name: str, flags: List[str], options):
    command = shlex.split(options.memtune) + [
        "sweep", "--model", str(options.folder / "model.pt"), "--loss", "next_token", "--device", options.device,
        "--input", f"tok:int64[{options.batch},{options.length}]<{options.vocab}", "--ranks", str(options.ranks),
        "--warmup", str(options.warmup), "--steps", str(options.steps), "--rounds", "1", "--rank-timeout", "60s",
        "--out", str(options.folder / "run"), "--json", str(options.folder / f"{name}.json"), *flags]
    with open(options.folder / f"{name}.log", "w") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
    if code:
        print(f"{shlex.join(command)} ended with {code}:\n{(options.folder / (name + '.log')).read_text()[-1500:]}",
              file=sys.stderr, flush=True)


def measure_memtune(options):
    if not (options.folder / "model.pt").exists():
        size = ["--model", options.model, "--batch", str(options.batch), "--length", str(options.length)]
        subprocess.run([sys.executable, HERE / "eager.py", "--export", options.folder / "model.pt", "--device", options.device,
                        "--dtype", options.dtype, *size], check=True)
    none = options.strategies or ["none"]
    sweep("memtune", [part for name in none for part in ("--strategy", name)], options)
    files = {gib: options.folder / f"plan-{gib:g}GiB.json" for gib in options.budgets}
    planning = [subprocess.Popen(shlex.split(options.memtune) + [
        "plan", "--from", str(options.folder / "run"), "--budget", f"{int(gib * GIB)}B", "--write", str(file), "--json",
        str(file.with_suffix(".predicted"))], stdout=subprocess.DEVNULL) for gib, file in files.items()]
    for process in planning:
        process.wait()
    plans = [part for file in files.values() if file.exists() for part in ("--plan", str(file))]
    if plans:
        sweep("plans", ["--strategy", "none", *plans], options)
    for way in options.ways:
        sweep(way, ["--strategy", "none", *WAYS[way]], options)


def text(value, form: str) -> str:
    return "-" if value is None else form.format(value)


def row(trial: Dict, by: str, none_ms: float) -> str:
    if trial["outcome"] != "ok":
        return f"| {trial['strategy']} | {by} | {trial['outcome']}: {trial['reason'][:80]} |" + " |" * (len(COLUMNS) - 3)
    ms, peak = trial["step_ms"]["median"], (trial.get("peak_bytes") or {}).get("allocated")
    collectives = trial.get("communication", {})
    moved = trial.get("transfer", {})
    predicted, compared = trial.get("predicted") or {}, trial.get("gradients") or {}
    errors = (predicted.get("step_ms") and predicted["step_ms"] / ms - 1, predicted.get("peak_bytes") and peak
              and predicted["peak_bytes"] / peak - 1)
    equal = "-" if not compared.get("compared") else "equal" if compared["equal"] else f"{compared['max_abs_difference']:.1e}"
    cells = [trial["strategy"], by, f"{ms:.1f}", f"{ms / none_ms:.3f}", text(peak and peak / GIB, "{:.2f}"),
             *(text(collectives.get(key), "{:.1f}") for key in ("collectives_ms", "exposed_ms")),
             text(100 * moved["hidden"] if moved.get("out_bytes") else None, "{:.0f} %"), equal,
             *(text(error and 100 * error, "{:+.2f} %") for error in errors)]
    return "| " + " | ".join(cells) + " |"


def table(folder: Path) -> str:
    others = [json.loads(line) for path in sorted(folder.glob("peers.jsonl")) for line in path.read_text().splitlines()]
    ours: Dict[str, Dict] = {}
    for path in [*folder.glob("memtune.json"), *folder.glob("plans.json")]:
        for trial in json.loads(path.read_text())["trials"]:
            paper = folder / f"{trial['strategy']}.predicted"
            if paper.exists():
                trial["predicted"] = json.loads(paper.read_text())["plans"][0]["predicted"]
            ours.setdefault(trial["strategy"], trial)
    for way in WAYS:
        for path in folder.glob(f"{way}.json"):
            for trial in json.loads(path.read_text())["trials"]:
                trial["strategy"] += f", {way}"
                ours[trial["strategy"]] = trial
    worked = [trial for trial in [*others, *ours.values()] if trial["outcome"] == "ok"]
    none_ms = next((trial["step_ms"]["median"] for trial in worked if trial["strategy"] == "none"), 1.0)
    rows = [(trial, trial.get("package") or "memtune") for trial in [*others, *ours.values()]]
    rows.sort(key=lambda pair: -((pair[0].get("peak_bytes") or {}).get("allocated") or 0))
    return "\n".join(["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|",
                      *(row(trial, by, none_ms) for trial, by in rows)])


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--model", choices=MODELS, help="default: bench; tiny on a CPU")
    p.add_argument("--batch", type=int, default=0, help="a rank; default: the model's")
    p.add_argument("--length", type=int, default=0)
    p.add_argument("--dtype", help="default: bf16; fp32 on a CPU")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--warmup", type=int, default=4)
    p.add_argument("--only", choices=("peers", "memtune"))
    p.add_argument("--peers", nargs="*", default=PEERS)
    p.add_argument("--traced", nargs="*", default=("none",), help="peers whose collectives are looked at")
    p.add_argument("--strategies", nargs="*", default=STRATEGIES)
    p.add_argument("--ways", nargs="*", default=tuple(WAYS), choices=WAYS)
    p.add_argument("--budgets", type=float, nargs="*", default=(20, 14, 10.4, 9.5), metavar="GIB")
    p.add_argument("--table", action="store_true", help="measure nothing")
    p.add_argument("--peer", help=argparse.SUPPRESS)
    options = p.parse_args()
    options.model = options.model or ("bench" if options.device == "cuda" else "tiny")
    options.dtype = options.dtype or ("bf16" if options.device == "cuda" else "fp32")
    options.batch = options.batch or MODELS[options.model][2]
    options.length = options.length or MODELS[options.model][3]
    options.vocab = MODELS[options.model][1].get("vocab", 32000)
    return options


def main():
    options = parse_arguments()
    if options.peer:
        be_peer(options.peer, options)
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table and options.only != "memtune":
        measure_peers(options)
    if not options.table and options.only != "peers":
        measure_memtune(options)
    found = table(options.folder)
    (options.folder / "table.md").write_text(found + "\n")
    print(found)


if __name__ == "__main__":
    main()
