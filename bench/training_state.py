"""Compares the cost of saving the training state in one run: memtune run, torch.save and torch.distributed.checkpoint.

    python training_state.py FOLDER                                   # one GPU; 1.10 B parameters, 6.63 GB per state
    python training_state.py FOLDER --part ours --save overlapped     # only a part of it
    python training_state.py FOLDER --device cpu                      # a tiny model, to check that it runs

FOLDER gets training-state.jsonl, one record per line, and training-state.md, the table. Both grow during the run. The
order is: the disk alone; memtune's `sync` saves; a run without saves; the other ways to save; the first of them and
`sync` under --under; the peers; the disk again. The durations of `sync` set the number of steps between later saves, so
that each save ends before the next begins. Parts that would exceed --limit are shortened or left out, with a note.
"""

import argparse
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any, Dict, List, Optional

import raw_disk
import training_state_table

HERE = Path(__file__).resolve().parent
SETTLING = 3  # first steps of a run, which do not count
QUIET = 3  # steps without a save, after each save
MARGIN = 1.25  # how much longer than the longest save of sync another save may take
START_S = 12.0  # estimate for memtune run until its first step; later the last measured time
END_S = 20.0  # for the disk alone at the end


class Bench:
    """One run of all parts. The results are in `records`."""

    def __init__(self, options):
        self.options = options
        self.began = time.monotonic()
        self.records: List[Dict[str, Any]] = []
        self.start_s = START_S
        self.remove_s = 0.0  # time to remove a state
        self.work = options.folder / "work"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        (options.folder / "training-state.jsonl").unlink(missing_ok=True)

    def add(self, **record):
        self.records.append(record)
        with open(self.options.folder / "training-state.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")
        (self.options.folder / "training-state.md").write_text(training_state_table.page(self.records))
        said = {key: value for key, value in record.items() if not isinstance(value, (list, dict))}
        print(f"{time.monotonic() - self.began:5.0f} s", json.dumps(said), flush=True)

    def left_s(self) -> float:
        return self.options.limit - (time.monotonic() - self.began)

    def run(self):
        self.add(kind="setting", command=shlex.join(sys.argv), date=str(date.today()), cores=os.cpu_count(),
                 memtune=output_of(self.options.memtune, "--version"), gpu=gpu_name(), save=self.options.save,
                 **{key: getattr(self.options, key) for key in ("model", "batch", "length", "dtype", "device")})
        self.export()
        self.raw_disk()
        if "ours" in self.options.part:
            self.ours()
        if "peers" in self.options.part:
            self.peers()
        self.raw_disk()
        shutil.rmtree(self.work)
        self.add(kind="end", seconds=round(time.monotonic() - self.began))

    def export(self):
        subprocess.run(self.peers_command("--export", self.work / "model.pt"), check=True)

    def raw_disk(self):
        record = raw_disk.measure(self.work, self.options.raw_bytes)
        said = output_of(self.options.memtune, "doctor", "--device", "cpu", "--scratch", self.work)
        doctor = re.search(r"([\d.]+) GB/s into a new file", said)
        if doctor:
            record["doctor_gb_per_s"] = float(doctor.group(1))
        self.remove_s = record["remove_s"]
        self.add(kind="raw disk", **record)

    def ours(self):
        under, ways = self.options.under, [way for way in self.options.save if way != "sync"]
        sync = self.train("sync", "none", 2, self.options.saves)
        if not sync:
            return
        every = steps_between(sync, self.remove_s)
        self.train("never", "none", every + SETTLING, 0)
        if ways:
            self.train(ways[0], "none", every, self.options.saves)
            there = self.train("sync", under, 2, min(3, self.options.saves))
            if there:
                self.train(ways[0], under, steps_between(there, self.remove_s), self.options.saves)
        for way in ways[1:]:
            self.train(way, "none", every, self.options.saves)

    def ours_end_s(self) -> float:
        """Remaining seconds for memtune's runs."""
        return self.left_s() - (self.options.peers_limit if "peers" in self.options.part else 0)

    def train(self, way: str, strategy: str, every: int, saves: int) -> Optional[Dict[str, Any]]:
        """One memtune run with as many saves as the time allows. Returns its record, unless it failed."""
        last = next((r for r in reversed(self.records) if r.get("strategy") == strategy and "step_ms" in r), None)
        seconds = (every * last["step_ms"] + (last["blocked_ms"][0] if way == "sync" else 0)) / 1e3 if last else 0
        fit = int((self.ours_end_s() - self.start_s) / seconds) - 1 if seconds else saves
        about = dict(kind="memtune", way=way, strategy=strategy)
        if saves and min(fit, saves) < 2:
            self.add(**about, skipped=f"{max(0, self.ours_end_s()):.0f} s were left, "
                                      f"two saves take {self.start_s + 3 * seconds:.0f}")
            return None
        saves = min(fit, saves)
        steps = every * (saves + 1) - 1 if saves else every
        answer = self.run_memtune(way, strategy, every, steps)
        if "error" in answer:
            self.add(**about, **answer)
            return None
        self.start_s = answer["wall_s"] - spent_s(answer)
        record = {**about, "every": every, "steps": steps, **figures(answer)}
        self.add(**record)
        return record

    def run_memtune(self, way: str, strategy: str, every: int, steps: int) -> Dict[str, Any]:
        """Returns the JSON of the answer with wall_s and peak_rss_bytes, or {"error": reason}."""
        out = self.work / "run"
        saving = [] if way == "never" else ["--save", way, "--save-every", every, "--keep-last", 1]
        command = [self.options.memtune, "run", "--model", self.work / "model.pt", "--inputs",
                   self.work / "inputs.safetensors", "--loss", "next_token", "--device", self.options.device,
                   "--strategy", strategy, "--steps", steps, "--out", out, "--json", self.work / "answer.json",
                   *saving, "--quiet"]
        answer = run_child(list(map(str, command)), self.work / "said", max(30.0, self.left_s()))
        if (self.work / "answer.json").exists():
            answer.update(json.loads((self.work / "answer.json").read_text()))
            (self.work / "answer.json").unlink()
            answer.pop("error", None)  # the error of a save, which is in the record of the save
        shutil.rmtree(out, ignore_errors=True)
        os.sync()
        return answer

    def peers_command(self, *more) -> List[str]:
        setting = [part for key in ("model", "batch", "length", "dtype", "device")
                   for part in (f"--{key}", getattr(self.options, key))]
        return list(map(str, [sys.executable, HERE / "training_state_peers.py", *setting, *more]))

    def peers(self):
        limit = self.left_s() - END_S
        command = self.peers_command("--folder", self.work, "--saves", self.options.peer_saves, "--limit", limit,
                                     "--way", *self.options.peers)
        if self.options.verify:
            command.append("--verify")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith("{"):
                    record = json.loads(line)
                    self.add(kind="peer" if "way" in record else "peers", **record)
        if process.returncode:
            self.add(kind="peers", error=f"exit code {process.returncode}")


def output_of(*command) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True).stdout.strip()


def gpu_name() -> str:
    try:
        return output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    except OSError:
        return ""


def run_child(command: List[str], said: Path, limit_s: float) -> Dict[str, Any]:
    """Wall seconds, and the largest resident set of the process and its children. "error" if it failed."""
    start = time.monotonic()
    with open(said, "w") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
    ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    while not ended:
        if time.monotonic() > start + limit_s:
            process.kill()
        time.sleep(0.02)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    answer = {"wall_s": time.monotonic() - start, "peak_rss_bytes": usage.ru_maxrss * 1024}
    if process.returncode:
        answer["error"] = f"exit code {process.returncode}: {said.read_text().strip()[-400:]}"
    return answer


def spent_s(answer) -> float:
    blocked = sum(save["blocked_ms"] for save in answer["saves"])
    return (sum(answer["times_ms"]) + blocked) / 1e3


def steps_between(record, remove_s: float) -> int:
    """Number of steps between saves, so that each save and removal of an older state ends before the next save."""
    return math.ceil(MARGIN * (max(record["durable_ms"]) + remove_s * 1e3) / record["step_ms"]) + QUIET


def figures(answer) -> Dict[str, Any]:
    """Figures of a ResumableTrainingResult: durations of the saves, and of steps with and without a save in progress."""
    saves = [save for save in answer["saves"] if not save.get("error")]
    meanwhile, quiet, late = step_times(answer)
    return {"blocked_ms": [save["blocked_ms"] for save in saves], "durable_ms": [save["durable_ms"] for save in saves],
            "step_ms": statistics.median(quiet), "quiet_steps_ms": quiet, "steps_meanwhile_ms": meanwhile,
            "step_ms_meanwhile": statistics.median(meanwhile) if meanwhile else None, "late_saves": late,
            "bytes": max((save["bytes"] for save in saves), default=0),
            "host_bytes": answer["save_host_bytes"], "peak_rss_bytes": answer["peak_rss_bytes"],
            "wall_s": round(answer["wall_s"], 1),
            "loss": answer["loss"], "saved_steps": [save["step"] for save in saves],
            "errors": [save["error"] for save in answer["saves"] if save.get("error")]}


def step_times(answer):
    """Times of steps that began during a save, times of the other steps, and how many saves outlasted their interval.
    The clock of a save starts when training is blocked."""
    saves = {save["step"]: save for save in answer["saves"]}
    meanwhile, quiet, late, left_ms = [], [], 0, 0.0
    for step, ms in enumerate(answer["times_ms"]):
        save = saves.get(answer["first_step"] + step)
        if save:
            late += left_ms > 0
            left_ms = save["durable_ms"] - save["blocked_ms"]
        if left_ms > 0:
            meanwhile.append(ms)
        elif step >= SETTLING:
            quiet.append(ms)
        left_ms -= ms
    return meanwhile, quiet, late


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--memtune", default=os.environ.get("MEMTUNE", str(HERE.parent / "scripts" / "memtune")))
    p.add_argument("--part", nargs="+", default=["ours", "peers"], choices=("ours", "peers"))
    p.add_argument("--save", nargs="+", default=["overlapped", "async"], metavar="HOW",
                   help="memtune's ways beside sync; the first is the one that has goals (default: overlapped async)")
    p.add_argument("--under", default="offload:stream", help="a strategy under which the first way is tried too")
    p.add_argument("--saves", type=int, default=10, help="of each of memtune's ways")
    p.add_argument("--peers", nargs="+", metavar="WAY", help="ways of training_state_peers.py",
                   default=["torch.save", "sync-8-threads", "async", "async-staged", "async-new-stager",
                                              "async-process"])
    p.add_argument("--peer-saves", type=int, default=2)
    p.add_argument("--verify", action="store_true", help="read the peers' saves back and compare them")
    p.add_argument("--limit", type=float, default=360, help="seconds")
    p.add_argument("--peers-limit", type=float, default=130, help="seconds of these that memtune leaves to the peers")
    p.add_argument("--model", help="default: bench, on a CPU tiny")
    p.add_argument("--dtype", choices=("bf16", "fp16", "fp32"))
    p.add_argument("--batch", type=int)
    p.add_argument("--length", type=int)
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--raw-bytes", type=int, help="of the disk by itself (default: about a state's)")
    options = p.parse_args()
    on_cpu = options.device == "cpu"
    options.model = options.model or ("tiny" if on_cpu else "bench")
    options.dtype = options.dtype or ("fp32" if on_cpu else "bf16")
    options.batch = options.batch or (2 if on_cpu else 4)
    options.length = options.length or (64 if on_cpu else 4096)
    options.raw_bytes = options.raw_bytes or (2_770_000 if on_cpu else 6_630_000_000)
    return options


if __name__ == "__main__":
    Bench(parse_arguments()).run()
