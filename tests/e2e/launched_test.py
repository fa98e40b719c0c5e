"""Tests ranks started by a launcher. Each is its own memtune process, only rank 0 prints and writes, and the results
are those of --ranks. If one is killed or hangs, all end and leave nothing behind.

    launched_test.py MEMTUNE [CHECK...]                             without a name: all
    launched_test.py MEMTUNE --device cuda --ranks 8 profile mpirun

Without MEMTUNE_NIGHT there are fewer launchers' environments, strategies and hanging ranks, and no plans. Checks are
skipped if their launcher or network is missing. The exit code is then 77.
"""
import argparse
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from processes import processes_of

SKIPPED = 77
NIGHT = "MEMTUNE_NIGHT" in os.environ
STRATEGIES = "none;checkpoint:full" + ";checkpoint:full,inputs=host" * NIGHT
SWEEP = ("--strategy", STRATEGIES, "--rounds", "2" if NIGHT else "1")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "SLURM_", "PMI", "OMPI_", "MPI_")


def environment(folder, more):
    """The environment of a process without a launcher, and `more`. memtune's temporary files go into the folder. Settings
    of Open MPI stay: without ssh mpirun needs some."""
    own = {name: value for name, value in os.environ.items()
           if not name.startswith(LAUNCHERS) or name.startswith("OMPI_MCA_")}
    aside = os.path.join(folder, "aside")
    os.makedirs(aside, exist_ok=True)
    return {**own, "TMPDIR": aside, "OMP_NUM_THREADS": "1", **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def words(command, run, *more):
    return [MEMTUNE, command, "--model", "tiny", "--device", DEVICE, "--batch", "2", "--out", run, "-q", *more]


def by_torchrun(port, rank, size):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def by_name(port, rank, size):
    """A name of this machine that is not the first address of the loopback device, like Debian's host names."""
    return {**by_torchrun(port, rank, size), "MASTER_ADDR": "127.0.1.1"}


def by_srun(port, rank, size):
    return {"SLURM_JOB_ID": str(port), "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
            "SLURM_NTASKS": str(size), "SLURM_STEP_NUM_TASKS": str(size), "SLURM_NODEID": "0",
            "SLURM_STEP_TASKS_PER_NODE": str(size), "SLURM_STEP_NODELIST": socket.gethostname()}


def by_open_mpi(port, rank, size):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(size), "PMIX_NAMESPACE": str(port)}


def by_mpich(port, rank, size):
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def start_all(folder, by, size, commands):
    """Starts one process per rank. `commands` has one for each rank, or one for all."""
    port = free_port()
    each = commands if isinstance(commands[0], list) else [commands] * size
    return [subprocess.Popen(each[rank], env=environment(folder, by(port, rank, size)), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True) for rank in range(size)]


def ends(processes, seconds=120):
    """Returns (code, stdout, stderr) of each rank."""
    told = [process.communicate(timeout=seconds) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, told)]


def torchrun(*more):
    return [sys.executable, "-m", "torch.distributed.run", *more, "--no-python"]


def trials_of(answer):
    return {trial["strategy"]: trial for trial in json.loads(answer)["trials"]}


def check_equal(launched, started, ranks):
    assert list(launched) == list(started), (list(launched), list(started))
    for name, trial in launched.items():
        assert trial["outcome"] == "ok", (name, trial["reason"])
        assert trial["gradients"]["equal"], (name, trial["gradients"])
        assert trial["loss"] and trial["loss"] == started[name]["loss"], (name, trial["loss"], started[name]["loss"])
        assert len(trial["ranks"]) == ranks, name
        for one, other in zip(trial["ranks"], started[name]["ranks"]):
            assert one["loss"] == other["loss"], (name, one, other)


def started_here(folder, ranks, command="profile", *more):
    run = os.path.join(folder, f"here{ranks}-{command}")
    done = subprocess.run(words(command, run, "--json", "-", "--ranks", str(ranks), *more), check=True,
                          env=environment(folder, {}), stdout=subprocess.PIPE, text=True)
    return trials_of(done.stdout)


def nothing_left(folder, seconds=5):
    end = time.monotonic() + seconds
    while left := processes_of(folder):
        assert time.monotonic() < end, left
        time.sleep(0.05)


def check_profile(folder):
    """Under torchrun there is one answer, from rank 0."""
    run = os.path.join(folder, "profile")
    done = subprocess.run(torchrun("--nproc-per-node", str(RANKS)) + words("profile", run, "--json", "-"), check=True,
                          env=environment(folder, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check_equal(trials_of(done.stdout), started_here(folder, RANKS), RANKS)
    assert os.path.exists(os.path.join(run, "trials", "1-none", "log-rank1.txt"))
    nothing_left(folder)
    assert not [name for name in os.listdir(os.path.join(folder, "aside")) if name.startswith("memtune-")]


def check_nodes(folder):
    """Two agents of torchrun, as on two machines (0.0.0.0 is this one, but no name for its loopback device), and a sweep.
    The same sweep again has nothing left to measure."""
    run = os.path.join(folder, "nodes")
    for _ in range(2):
        port = str(free_port())
        agents = [subprocess.Popen(
            torchrun("--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1", "--master-addr", "0.0.0.0",
                     "--master-port", port) + words("sweep", run, "--json", "-", *SWEEP),
            env=environment(folder, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for node in (0, 1)]
        (code, answer, errors), (other_code, other_answer, other_errors) = ends(agents)
        assert (code, other_code, other_answer) == (0, 0, ""), (errors, other_errors)
        check_equal(trials_of(answer), started_here(folder, 2, "sweep", *SWEEP), 2)
    nothing_left(folder)


def check_environments(folder):
    started = {ranks: started_here(folder, ranks) for ranks in (2, 3)}
    every = ((3, by_srun), (2, by_open_mpi), (2, by_name), (2, by_mpich), (2, by_torchrun))
    for ranks, by in every if NIGHT else every[:2]:
        run = os.path.join(folder, by.__name__)
        told = ends(start_all(folder, by, ranks, words("profile", run, "--json", "-")))
        assert [code for code, _, _ in told] == [0] * ranks, told
        check_equal(trials_of(told[0][1]), started[ranks], ranks)
        assert all(not answer and not errors for _, answer, errors in told[1:]), told
    nothing_left(folder)


def check_planned(folder):
    """Rank 0 gets the step costs of each rank and plans for the one with the highest peak."""
    if not NIGHT:
        return
    run = os.path.join(folder, "planned")
    more = ("--json", "-", "--rounds", "1", "--steps", "2")

    def sweep(*those):
        told = ends(start_all(folder, by_torchrun, 2, words("sweep", run, *more, *those)))
        assert [code for code, _, _ in told] == [0, 0], told
        return json.loads(told[0][1])

    none, = sweep("--strategy", "none")["trials"]
    for rank, name in enumerate(("costs.json", "costs-rank1.json")):
        with open(os.path.join(run, "trials", "1-none", name)) as file:
            assert json.load(file)["sharding"]["rank"] == rank, name
    budget = none["peak_bytes"]["allocated"] * 8 // 10
    planned = [trial for trial in sweep("--budget", f"{budget}B")["trials"] if trial["strategy"].startswith("plan:")]
    assert planned
    for trial in planned:
        assert trial["gradients"]["equal"] and trial["peak_bytes"]["allocated"] <= budget, trial
        assert abs(trial["predicted"]["peak_error"]) <= 0.01, trial["predicted"]


def check_mpirun(folder):
    if not shutil.which("mpirun"):
        return "no mpirun here: its environment was set by hand alone"
    run = os.path.join(folder, "mpirun")
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS)] +
                          words("profile", run, "--json", "-"), env=environment(folder, {}), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    check_equal(trials_of(done.stdout), started_here(folder, RANKS), RANKS)


class Machines:
    """Two connected network namespaces, like two machines with their own addresses."""

    def __init__(self):
        self.names = [f"memtune{os.getpid()}{end}" for end in "ab"]
        self.cables = [f"mt{os.getpid()}{end}" for end in "ab"]

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip("link", "add", self.cables[0], "type", "veth", "peer", "name", self.cables[1])
        for i, (name, cable) in enumerate(zip(self.names, self.cables)):
            self.ip("link", "set", cable, "netns", name)
            self.ip("-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", cable)
            self.ip("-n", name, "link", "set", cable, "up")
            self.ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    @staticmethod
    def ip(*more):
        subprocess.run(["ip", *more], check=True)

    def start(self, folder, run, *more):
        """Starts four ranks, two per machine."""
        return [subprocess.Popen(
            ["ip", "netns", "exec", self.names[rank // 2], *words("profile", run, "--json", "-", *more)],
            env=environment(folder, {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2),
                                     "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500",
                                     "MEMTUNE_RANK_SECRET": "of this test"}),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(4)]


def has_namespaces():
    def able(*words):
        return subprocess.run(["ip", *words], stderr=subprocess.DEVNULL).returncode == 0

    if not shutil.which("ip") or not able("netns", "add", "memtune-try"):
        return False
    cable = able("link", "add", "memtune-try", "type", "veth", "peer", "name", "memtune-try2")
    inside = cable and able("link", "set", "memtune-try2", "netns", "memtune-try")
    if cable:
        able("link", "delete", "memtune-try")
    able("netns", "delete", "memtune-try")
    return inside


def wait_for_steps(run, processes):
    """Waits until the reference gradients are written. Steps follow."""
    end = time.monotonic() + 300
    while not glob.glob(os.path.join(run, "reference-*.bin")):
        assert time.monotonic() < end and all(process.poll() is None for process in processes), ends(processes)
        time.sleep(0.05)


def check_machines(folder):
    if not has_namespaces():
        return "no network namespaces here: ranks of several machines were not tried"
    with Machines() as machines:
        run = os.path.join(folder, "machines")
        told = ends(machines.start(folder, run))
        assert [code for code, _, _ in told] == [0] * 4, told
        check_equal(trials_of(told[0][1]), started_here(folder, 4), 4)
        with open(os.path.join(run, "trials", "1-none", "request-rank0.json")) as file:
            request = json.load(file)
        assert request["address"] == "10.77.0.1" and request["rendezvous"].startswith("tcp://10.77.0.1:"), request
        # Cuts the connection.
        run = os.path.join(folder, "cut")
        processes = machines.start(folder, run, "--steps", "5000", "--rank-timeout", "6s")
        wait_for_steps(run, processes)
        machines.ip("-n", machines.names[1], "link", "set", machines.cables[1], "down")
        told = ends(processes, 30)
        assert [code for code, _, _ in told] == [1] * 4, told
        assert "rank 2: its memtune on " in told[0][2] and "it has not responded for 6 s" in told[0][2], told
        assert "rank 0 is lost" in told[3][2], told
    nothing_left(folder)


def check_refusals(folder):
    def refused(expected, commands, by=by_torchrun, size=2, code=2, spoken=0):
        told = ends(start_all(folder, by, size, commands))
        assert told[0][0] == code and expected in told[spoken][2], (expected, told)
        return told

    run = os.path.join(folder, "refused")
    refused("--ranks 3: torchrun started 2 processes, which are the ranks", words("profile", run, "--ranks", "3"))
    refused("--saves is only for ranks that memtune starts itself", words("sweep", run, "--saves"))
    refused("run starts its ranks itself", words("run", run))
    refused("memtune profile -- torchrun", [MEMTUNE, "profile", "--", "true"])
    refused("memtune sweep -- torchrun", [MEMTUNE, "sweep", "--", "true"])
    told = refused("within 2 s; rank 1 on " + socket.gethostname() + " was started by another command: memtune profile",
                   [words("profile", run, "--rank-timeout", "2s"), words("profile", run, "--seed", "3")], code=1)
    assert told[1][0] == 2 and "rank 0 refuses this one" in told[1][2], told
    told = refused("rank 1 did not connect to rank 0 within 2 s",
                   [words("profile", run, "--rank-timeout", "2s"), ["true"]], code=1)
    told = ends(start_all(folder, by_torchrun, 2, [["true"], words("profile", run, "--rank-timeout", "2s")]))
    assert told[1][0] == 1 and "rank 0 cannot be reached: nothing of this user listens at the local" in told[1][2], told
    assert not os.path.exists(run)
    # With --ranks 1, or with one of the variables alone, a process is no launched rank.
    for by, more in ((by_torchrun, ("--ranks", "1")), (lambda *_: {"WORLD_SIZE": "8"}, ())):
        told = ends(start_all(folder, by, 1, words("profile", run, "--json", "-", *more)))
        assert told[0][0] == 0 and not trials_of(told[0][1])["none"]["ranks"], told
    shutil.rmtree(run)
    # A later error on rank 0 also ends all ranks, and is printed once.
    told = ends(start_all(folder, by_torchrun, 2, words("profile", run, "--strategy", "nonsense")))
    assert [code for code, _, _ in told] == [2, 2] and told[0][2] and not told[1][2], told


def in_steps(folder, name, *more):
    """Three ranks in a long training, and the process id of each rank's trial."""
    run = os.path.join(folder, name)
    processes = start_all(folder, by_torchrun, 3, words("profile", run, "--steps", "5000", *more))

    def trials():
        found = {}
        for pid, text in processes_of(folder):
            if "memtune-trial" not in text[0] or text[1] != "run":
                continue
            with open(text[2]) as file:
                found[json.load(file)["rank"]] = pid
        return found

    wait_for_steps(run, processes)
    return processes, trials(), run


def check_kills(folder):
    # Killing the trial of a rank is a result with a reason, as with --ranks.
    processes, trials, run = in_steps(folder, "killed-trial")
    os.kill(trials[1], signal.SIGKILL)
    told = ends(processes, 30)
    assert [code for code, _, _ in told] == [1, 1, 1], told
    with open(os.path.join(run, "trials", "1-none", "measurement.json")) as file:
        reason = json.load(file)["reason"]
    assert reason.startswith("rank 1: "), reason
    nothing_left(folder)
    # Killing the memtune process of a rank.
    processes, _, _ = in_steps(folder, "killed-rank")
    processes[1].kill()
    told = ends(processes, 30)
    assert told[0][0] == told[2][0] == 1, told
    assert f"rank 1: its memtune on {socket.gethostname()} is lost: it has ended" in told[0][2], told
    nothing_left(folder)
    # Killing rank 0.
    processes, _, _ = in_steps(folder, "killed-first")
    processes[0].kill()
    told = ends(processes, 30)
    assert told[1][0] == told[2][0] == 1 and "rank 0 is lost: " in told[1][2], told
    nothing_left(folder)


def check_hangs(folder):
    processes, trials, run = in_steps(folder, "hanging-trial", "--rank-timeout", "6s")
    os.kill(trials[2], signal.SIGSTOP)
    told = ends(processes, 30)
    assert [code for code, _, _ in told] == [1, 1, 1], told
    with open(os.path.join(run, "trials", "1-none", "measurement.json")) as file:
        trial = json.load(file)
    assert trial["outcome"] == "timeout" and trial["reason"].startswith("rank 2 did not arrive: rank "), trial["reason"]
    nothing_left(folder)
    for hangs, rank in ((1, 0), (0, 2)) if NIGHT else ((0, 2),):
        processes, _, _ = in_steps(folder, f"hanging-rank{hangs}", "--rank-timeout", "6s")
        processes[hangs].send_signal(signal.SIGSTOP)
        told = ends([process for process in processes if process is not processes[hangs]], 30)
        assert [code for code, _, _ in told] == [1, 1], told
        expected = "rank 1: its memtune on" if hangs else "rank 0 is lost: it no longer responds"
        assert any(expected in errors for _, _, errors in told), told
        processes[hangs].kill()
        ends([processes[hangs]])
        nothing_left(folder)


def check_interrupt(folder):
    processes, _, _ = in_steps(folder, "interrupted")
    for process in processes:
        process.send_signal(signal.SIGINT)
    told = ends(processes, 30)
    assert [code for code, _, _ in told] == [130, 130, 130], told
    nothing_left(folder)


CHECKS = (check_profile, check_nodes, check_environments, check_planned, check_refusals, check_kills, check_hangs,
          check_interrupt)
NEED_MORE = (check_mpirun, check_machines)  # they need more than this machine may have


def main():
    named = {check.__name__.removeprefix("check_"): check for check in CHECKS + NEED_MORE}
    if unknown := set(CHOSEN) - {"usual", *named}:
        sys.exit(f"no check is called {', '.join(unknown)}: usual, {', '.join(named)}")
    chosen = CHECKS if CHOSEN == ["usual"] else [named[name] for name in CHOSEN or named]
    code = 0
    with tempfile.TemporaryDirectory() as folder:
        for check in chosen:
            if why_not := check(folder):
                print(f"skipped {check.__name__}: {why_not}")
                code = SKIPPED
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("memtune")
    parser.add_argument("checks", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ranks", type=int, default=2, help="of the checks profile and mpirun")
    options = parser.parse_intermixed_args()
    MEMTUNE, CHOSEN, DEVICE, RANKS = options.memtune, options.checks, options.device, options.ranks
    sys.exit(main())
