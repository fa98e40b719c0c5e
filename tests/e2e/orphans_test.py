"""Kills memtune at random moments of a sweep and checks that no trial outlives it.

    orphans_test.py MEMTUNE [KILLS]        200 kills within 400 ms of a trial's start, by default
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from processes import processes_of


def kill_once(memtune, delay):
    """Returns whether a trial had started, and the processes that are left."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = [memtune, "sweep", "--model", "tiny", "--device", "cpu", "--strategy", "none", "--out", run, "-q"]
        parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started = False
        end = time.monotonic() + 20
        while not started and parent.poll() is None and time.monotonic() < end:
            started = any(pid != parent.pid for pid, _ in processes_of(run))
        time.sleep(delay)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        end = time.monotonic() + 2
        left = processes_of(run)
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = processes_of(run)
        for pid, _ in left:
            os.kill(pid, signal.SIGKILL)
        return started, left


def main():
    memtune, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    random.seed(7)
    orphans = started = 0
    for _ in range(kills):
        had_trial, left = kill_once(memtune, random.uniform(0, 0.4))
        started += had_trial
        orphans += len(left) > 0
    print(f"{kills} kills, {started} with a trial running, {orphans} orphans")
    return 0 if orphans == 0 and started > kills * 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
