"""Tests ranks that train together, as a user starts them: measurements, refusals, and the end of the other ranks if one
is killed or hangs, or if memtune itself is killed.

    ranks_test.py MEMTUNE            # on CPUs
    ranks_test.py MEMTUNE cuda       # checks that fit on two GPUs
    ranks_test.py MEMTUNE cuda 8     # what more ranks add

On CPUs without MEMTUNE_NIGHT, two ranks train under few strategies and in one dtype, and plans are made for one kind of
sharded step.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from processes import processes_of

ERROR = 0.01  # of a predicted peak. With offloading it depends on times. A sharded unit is larger
ROUNDING = 2 ** -12  # half of float32's digits: another order of sums loses fewer, other samples or norms more
STRATEGIES = ["none", "checkpoint:full", "checkpoint:full,inputs=host", "checkpoint:op", "offload:stream",
              "offload:group"]


def arguments(run, *more):
    return [MEMTUNE, "sweep", "--model", "tiny", "--device", DEVICE, "--batch", "2", "--out", run, "-q", *more]


def ranks_of(folder):
    """Process id of each rank that works in the folder."""
    return {int(word.rsplit("-rank", 1)[1].split(".")[0]): pid for pid, words in processes_of(folder)
            for word in words if folder in word and "-rank" in word}


def wait_until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def check_sweep(folder, ranks):
    run = os.path.join(folder, f"run{ranks}")
    strategies = STRATEGIES if ALL else STRATEGIES[:3]
    subprocess.run(arguments(run, "--ranks", str(ranks), "--strategy", ";".join(strategies), "--rounds", "2", "--json",
                             run + ".json"), check=True)
    with open(run + ".json") as file:
        trials = {trial["strategy"]: trial for trial in json.load(file)["trials"]}
    assert list(trials) == strategies, list(trials)
    for name, trial in trials.items():
        assert trial["outcome"] == "ok", (name, trial["reason"])
        assert trial["gradients"]["equal"], (name, trial["gradients"])
        assert [rank["rank"] for rank in trial["ranks"]] == list(range(ranks)), name
        assert trial["peak_bytes"]["allocated"] == max(rank["peak_bytes"]["allocated"] for rank in trial["ranks"]), name
        assert trial["communication"]["gathered_bytes"] > trial["communication"]["reduced_bytes"] > 0, name
        assert trial["communication"]["exposed_ms"] > 0, name
        check_lanes(run, name, ranks)
    assert trials["checkpoint:full"]["peak_bytes"]["allocated"] < trials["none"]["peak_bytes"]["allocated"]
    return trials["none"]


def check_lanes(run, name, ranks):
    """The trace has all ranks, on one clock."""
    assert not glob.glob(os.path.join(run, "trials", "*", "trace-*")), "traces of single ranks"
    out = os.path.join(run, "lanes.json")
    subprocess.run([MEMTUNE, "report", run, "--format", "perfetto", "--trial", name, "-o", out], check=True)
    with open(out) as file:
        events = json.load(file)["traceEvents"]
    steps = [(event["pid"], event["ts"], event["ts"] + event["dur"]) for event in events
             if event.get("ph") == "X" and event["name"].startswith("step")]
    assert len({pid for pid, _, _ in steps}) == ranks, steps
    for pid, begin, end in steps:  # no rank continues without the others
        assert any(other != pid and begin < last and first < end for other, first, last in steps), steps


def check_joined(folder, ranks, none):
    """In each step, one rank with all samples has the mean of the ranks' losses."""
    run = os.path.join(folder, f"joined{ranks}")
    command = arguments(run, "--strategy", "none", "--rounds", "1", "--json", run + ".json")
    command[command.index("--batch") + 1] = str(2 * ranks)
    subprocess.run(command, check=True)
    with open(run + ".json") as file:
        one = json.load(file)["trials"][0]
    assert len(one["loss"]) > 3
    for expected, loss in zip(one["loss"], none["loss"]):
        assert abs(expected - loss) < ROUNDING * expected, (one["loss"], none["loss"])
    assert len(set(none["ranks"][0]["loss"])) > 1 and none["ranks"][0]["loss"] != none["ranks"][1]["loss"]


def check_clipped(folder):
    """Gradients are clipped by their norm over all ranks."""
    def losses(name, batch, *more):
        run = os.path.join(folder, name)
        command = arguments(run, "--strategy", "none", "--rounds", "1", "--lr", "0.1", "--optimizer", "sgd", "--json",
                            run + ".json", *more)
        command[command.index("--batch") + 1] = str(batch)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(run + ".json") as file:
            return json.load(file)["trials"][0]["loss"]

    free = losses("free", 4)
    one = losses("clipped1", 4, "--max-grad-norm", "0.1")
    assert one[-1] - free[-1] > 0.01, (one, free)
    for expected, loss in zip(one, losses("clipped2", 2, "--max-grad-norm", "0.1", "--ranks", "2")):
        assert abs(expected - loss) < ROUNDING * expected, (one, loss)


ON_HOST, WIDE = ("--shard-offload",), ("--dtype", "bf16", "--shard-dtype", "fp32", "--reduce-dtype", "fp32")


def check_shards(folder):
    """On device and host alike, strategies have the bits of none, and the losses are those without shards on the
    host."""
    def sweep(name, *more):
        run = os.path.join(folder, name)
        strategies = ";".join(STRATEGIES if ALL else STRATEGIES[:2])
        subprocess.run(arguments(run, "--ranks", "2", "--strategy", strategies, "--rounds", "1", "--accumulate", "2",
                                 "--max-grad-norm", "0.5", "--lr", "0.003", "--json", run + ".json", *more), check=True)
        with open(run + ".json") as file:
            trials = json.load(file)["trials"]
        for trial in trials:
            assert trial["outcome"] == "ok" and trial["gradients"]["equal"], (name, trial)
        return trials[0]

    plain, on_host = sweep("plain"), sweep("on-host", *ON_HOST)
    for expected, loss in zip(plain["loss"], on_host["loss"]):  # GPUs and CPUs round an update differently
        assert expected == loss or DEVICE != "cpu" and abs(expected - loss) < 1e-3 * expected, (plain, on_host)
    saved = plain["peak_bytes"]["allocated"] - on_host["peak_bytes"]["allocated"]
    assert 0 < saved < on_host["host_bytes"] - plain["host_bytes"], (plain, on_host)
    if not ALL:
        return
    half, wide = sweep("half", "--dtype", "bf16"), sweep("wide", *WIDE)
    assert half["loss"] != wide["loss"], half["loss"]
    assert max(abs(a - b) / a for a, b in zip(plain["loss"], wide["loss"])) < 0.05, (plain["loss"], wide["loss"])


def check_planned(folder, reshard, *more):
    """For a budget, a plan of the sharded step is predicted, and all ranks run it."""
    run = os.path.join(folder, "-".join(["planned", reshard, *more]))
    sharded = arguments(run, "--ranks", "2", "--reshard", reshard, *more, "--rounds", "1", "--steps", "2", "--json", run + ".json")

    def sweep(*more):
        subprocess.run([*sharded, *more], check=True, stdout=subprocess.DEVNULL)
        with open(run + ".json") as file:
            return json.load(file)

    none, = sweep("--strategy", "none")["trials"]
    for name in ("costs.json", "costs-rank1.json"):
        with open(os.path.join(run, "trials", "1-none", name)) as file:
            costs = json.load(file)
        assert costs["sharding"]["ranks"] == 2 and costs["sharding"]["reshard"] == reshard, costs["sharding"]
        assert all(bytes > 0 and ms > 0 for _, bytes, ms in costs["sharding"]["units"]["rows"]), costs["sharding"]
    unit = max(bytes for _, bytes, _ in costs["sharding"]["units"]["rows"])
    plan = subprocess.run([MEMTUNE, "plan", "--from", run, "--json", "-"], check=True, capture_output=True, text=True)
    least, most = json.loads(plan.stdout)["least_bytes"], none["peak_bytes"]["allocated"]
    assert most - least > unit, (least, most, unit)
    budget = (least + most) // 2
    found = sweep("--budget", f"{budget}B")
    planned = [trial for trial in found["trials"] if trial["strategy"].startswith("plan:")]
    assert planned, found["trials"]
    for trial in planned:
        assert trial["gradients"]["equal"], trial["gradients"]
        assert len(trial["ranks"]) == 2 and trial["recomputed_ops"] > 0, trial
        predicted, measured = trial["predicted"]["peak_bytes"], trial["peak_bytes"]["allocated"]
        assert abs(predicted - measured) <= ERROR * measured, (predicted, measured)
    best, = [trial for trial in found["trials"] if trial["strategy"] == found["recommendation"]["strategy"]]
    assert found["recommendation"]["fits"] and best["peak_bytes"]["allocated"] <= budget, (best, budget)
    other = subprocess.run([MEMTUNE, "plan", "--from", run, "--machine", "h200"], capture_output=True, text=True)
    assert other.returncode == 2 and "the run had 2 ranks" in other.stderr, other.stderr


def check_too_large(folder):
    """Two ranks train a model that does not fit on one, with the result of a run without the cap."""
    def full(ranks, cap):
        run = os.path.join(folder, f"large{ranks}-{cap}")
        subprocess.run(arguments(run, "--ranks", str(ranks), "--memory-cap", f"{cap}B", "--strategy", "checkpoint:full",
                                 "--rounds", "1", "--json", run + ".json"), stdout=subprocess.DEVNULL)
        with open(run + ".json") as file:
            return {trial["strategy"]: trial for trial in json.load(file)["trials"]}["checkpoint:full"]

    alone, both = (full(ranks, 1 << 30) for ranks in (1, 2))
    least, most = (trial["peak_bytes"]["allocated"] for trial in (both, alone))
    cap = (least + most) // 2
    assert full(1, cap)["outcome"] == "device_oom", (least, most)
    capped = full(2, cap)
    assert capped["outcome"] == "ok" and capped["peak_bytes"]["allocated"] <= cap, capped
    assert capped["loss"] == both["loss"], (capped["loss"], both["loss"])


def start(run, *more):
    process = subprocess.Popen(arguments(run, "--ranks", str(MOST), "--strategy", "none", "--steps", "5000", *more))
    wait_until(lambda: len(ranks_of(run)) == MOST)
    wait_until(lambda: glob.glob(os.path.join(run, "reference-*.bin")), 300)  # steps follow it
    assert len(ranks_of(run)) == MOST and process.poll() is None
    return process


def trial_of(run):
    with open(os.path.join(run, "trials", "1-none", "measurement.json")) as file:
        return json.load(file)


def check_killed(folder):
    run = os.path.join(folder, "killed")
    process = start(run)
    os.kill(ranks_of(run)[1], signal.SIGKILL)
    assert process.wait(timeout=30) == 1
    wait_until(lambda: not ranks_of(run))
    trial = trial_of(run)
    assert trial["outcome"] in ("killed", "host_oom") and trial["reason"].startswith("rank 1: "), trial["reason"]


def check_hangs(folder):
    run = os.path.join(folder, "hangs")
    process = start(run, "--rank-timeout", "2s")
    os.kill(ranks_of(run)[MOST - 1], signal.SIGSTOP)
    assert process.wait(timeout=30) == 1
    wait_until(lambda: not ranks_of(run))
    trial = trial_of(run)
    assert trial["outcome"] == "timeout", trial["reason"]
    assert trial["reason"].startswith(f"rank {MOST - 1} did not arrive: rank "), trial["reason"]
    assert "waited 2 s for the others " in trial["reason"], trial["reason"]


def check_orphans(folder):
    run = os.path.join(folder, "orphans")
    process = start(run)
    os.kill(ranks_of(run)[0], signal.SIGSTOP)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not ranks_of(run))


def check_saves(folder):
    """Every save mode is measured on all ranks together, and no files of the states stay."""
    run = os.path.join(folder, "saves")
    subprocess.run(arguments(run, "--ranks", str(MOST), "--strategy", "none", "--rounds", "1", "--saves", "--json",
                             run + ".json"), check=True)
    with open(run + ".json") as file:
        saves = json.load(file)["trials"][0]["saves"]
    assert [save["mode"] for save in saves] == ["sync", "async", "overlapped"], saves
    for save in saves:
        assert save["outcome"] == "ok" and save["saves"] == 4, save
        assert 0 < save["blocked_ms"] <= save["most_blocked_ms"] and save["durable_ms"] > 0 < save["load_ms"], save
        assert save["bytes"] > 2.5e6, save  # sum over the ranks
    assert saves[1]["host_bytes"] < saves[1]["bytes"], saves[1]  # of one rank
    assert not os.path.exists(os.path.join(run, "saving"))


BRANCHES = """
import torch

class Block(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(width, 5))
        self.down = torch.nn.Parameter(torch.randn(5, width))
    def forward(self, x):
        return x + torch.tanh(x @ self.up.t()) @ self.down.t()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l0, self.l1, self.l2, self.l3 = Block(7), Block(40), Block(7), Block(13)
    def forward(self, x):
        x = self.l0(x)
        if bool(x.sum() > 0.0):
            x = self.l1(x)
        else:
            x = self.l2(x)
        return (self.l3(x) ** 2).mean()

torch.manual_seed(0)
torch.jit.script(Model()).save("branches.pt")
"""


def check_branches(folder):
    """If each rank reads another block, of another size, some Gloo threads throw, and the reason is reported."""
    with open(os.path.join(folder, "branches.py"), "w") as file:
        file.write(BRANCHES)
    subprocess.run([sys.executable, "branches.py"], cwd=folder, check=True)
    reasons = []
    for seed in range(3):
        run = os.path.join(folder, f"branches{seed}")
        subprocess.run([MEMTUNE, "sweep", "--model", os.path.join(folder, "branches.pt"), "--device", "cpu", "--ranks",
                        "3", "--input", "x:float32[2,5]", "--loss", "returned", "--blocks", "l*", "--strategy", "none",
                        "--rounds", "1", "--rank-timeout", "5s", "--seed", str(seed), "--out", run, "-q"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        trial = trial_of(run)
        if trial["outcome"] != "ok":
            reasons.append((trial["outcome"], trial["reason"]))
            if not ALL:
                break
    assert reasons, "no seed has branches that differ"
    for outcome, reason in reasons:
        assert outcome == "error" and "the ranks have read parameters in different orders" in reason, (outcome, reason)


def check_refusals(folder):
    for more, words in ((("--optimizer", "adafactor"), "--optimizer adafactor is not sharded"),
                        (("--shard-dtype", "int8"), "--shard-dtype: unknown dtype 'int8'"),
                        (("--ranks", "1", "--shard-offload"), "--shard-offload is for parameters sharded over"),
                        (("--optimizer-in-backward",), "--optimizer-in-backward does not go with several ranks")):
        command = arguments(os.path.join(folder, "refused"), *([] if "--ranks" in more else ["--ranks", "2"]), *more)
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 2 and words in ended.stderr, (more, ended.stderr)
    device = [word if word != DEVICE else "cuda:1" for word in arguments(os.path.join(folder, "refused"), "--ranks", "2")]
    ended = subprocess.run(device, capture_output=True, text=True)
    assert ended.returncode == 2 and "each rank has a device of its own" in ended.stderr, ended.stderr


def check_more(folder):
    check_joined(folder, MOST, check_sweep(folder, MOST))
    check_saves(folder)
    check_killed(folder)
    check_hangs(folder)
    check_orphans(folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 3:
            return check_more(folder)
        check_refusals(folder)
        if DEVICE == "cpu":
            check_branches(folder)
        for ranks in (2, 4) if ALL and DEVICE == "cpu" else (2,):
            check_joined(folder, ranks, check_sweep(folder, ranks))
        check_clipped(folder)
        check_saves(folder)
        check_shards(folder)
        check_planned(folder, "always", *ON_HOST)
        if ALL:
            check_planned(folder, "after-backward")
            check_planned(folder, "always")
            check_planned(folder, "never")
            check_planned(folder, "always", *WIDE)
        check_too_large(folder)
        check_killed(folder)
        check_hangs(folder)
        check_orphans(folder)


if __name__ == "__main__":
    MEMTUNE, DEVICE = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu"
    ALL = "MEMTUNE_NIGHT" in os.environ or DEVICE != "cpu"
    MOST = int(sys.argv[3]) if len(sys.argv) > 3 else 3 if DEVICE == "cpu" else 2
    sys.exit(main())
