"""Tests two ranks of a launcher beside strangers who reach rank 0's port, and rank 0 with a rank that misbehaves.

    strangers_test.py MEMTUNE

The ranks meet as on two machines, with a secret that the strangers do not know: 0.0.0.0 is this machine, but not a name
for the loopback device. The memory of rank 0 is VmHWM of its memtune process. The trial, a process of its own that loads
LibTorch, does not count.
"""
import hashlib
import hmac
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MEMTUNE = sys.argv[1]
MOST_KIB = 200 << 10
SECRET = "c0ffee" * 8
NOTES = 9  # bound of the lines about closed connections
STARTED = []


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def words(run):
    return [MEMTUNE, "profile", "--model", "tiny", "--device", "cpu", "--batch", "2", "--out", run, "--json", "-"]


def start(folder, run, port, rank, secret):
    launch = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
              "MASTER_ADDR": "0.0.0.0", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "TMPDIR": folder}
    if secret:
        launch["MEMTUNE_RANK_SECRET"] = secret
    STARTED.append(subprocess.Popen(words(run), env={**os.environ, **launch}, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True))
    return STARTED[-1]


class Watch(threading.Thread):
    """The most memory that a process had, in KiB."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.kib = pid, 0
        self.start()

    def run(self):
        try:
            while True:
                with open(f"/proc/{self.pid}/status") as file:
                    self.kib = max(self.kib, *(int(line.split()[1]) for line in file if line.startswith("VmHWM:")))
                time.sleep(0.02)
        except (OSError, TypeError):  # it has ended
            pass


def reach(port, seconds=10):
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=seconds)
        except OSError:
            assert time.monotonic() < end, "rank 0 does not listen"
            time.sleep(0.02)


def say(peer, message):
    peer.sendall(json.dumps(message, sort_keys=True, separators=(",", ":")).encode() + b"\n")


def introduce(peer, secret="", version=None, **changes):
    """Introduces itself as rank 1. Returns the version of rank 0, and its answer."""
    lines = peer.makefile("r")
    say(peer, {"hello": "memtune", "version": version or "0", "nonce": "mine"})
    challenge = json.loads(lines.readline())
    own = {"rank": 1, "size": 2, "words": "memtune", "host": "evil", "mounts": "", **changes}
    text = json.dumps(own, sort_keys=True, separators=(",", ":"))
    covered = f"another rank\n{challenge['nonce']} mine\n{text}"
    own["proof"] = hmac.new(secret.encode(), covered.encode(), hashlib.sha256).hexdigest()
    if version:
        say(peer, own)
    answer = json.loads(lines.readline())
    return challenge["version"], answer


def flood(port, ended):
    """Fills whatever rank 0 listens to, with a message without an end, with many, and with many connections."""
    while not ended.is_set():
        for text in (b"x" * 65536, b"{}\n" * 20000, b'{"hello":"memtune","version":"1","nonce":"1"}\n' * 1000):
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
                    for _ in range(100):
                        peer.sendall(text)
            except OSError:
                pass
        ended.wait(0.01)


def check_strangers(folder):
    port, run, ended = free_port(), os.path.join(folder, "run"), threading.Event()
    first = start(folder, run, port, 0, SECRET)
    watch = Watch(first.pid)
    silent = [reach(port) for _ in range(30)]
    version, answer = introduce(reach(port))
    assert "refused" in answer, answer
    for wrong in ({}, {"words": "other"}, {"size": 3}, {"rank": 0}, {"rank": -1}, {"rank": 2 ** 40}, {"host": 7}):
        assert "refused" in introduce(reach(port), version=version, **wrong)[1], wrong
    assert "refused" in introduce(reach(port), "guess", version)[1]
    for line in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"{}\n", b"\x00\xff\n", b"[" * 100000 + b"\n"):
        peer = reach(port)
        peer.sendall(line)
        silent.append(peer)
    flooding = [threading.Thread(target=flood, args=(port, ended), daemon=True) for _ in range(2)]
    for thread in flooding:
        thread.start()
    time.sleep(1)
    assert first.poll() is None, first.communicate()
    second = start(folder, run, port, 1, SECRET)
    (answer, errors), (other_answer, other_errors) = first.communicate(timeout=60), second.communicate(timeout=60)
    ended.set()
    for thread in flooding:
        thread.join()
    assert (first.returncode, second.returncode) == (0, 0), (errors, other_errors)
    trial, = json.loads(answer)["trials"]
    assert trial["outcome"] == "ok" and len(trial["ranks"]) == 2, trial
    assert not other_answer and not other_errors, other_errors
    notes = [line for line in errors.splitlines() if line.startswith("note: ")]
    assert 1 < len(notes) <= NOTES and "warning" not in errors, errors
    assert any("does not know the secret" in line for line in notes), notes
    print(f"strangers: at most {watch.kib / 1024:.1f} MiB")
    assert watch.kib < MOST_KIB, watch.kib


def check_flooding_rank(folder):
    """Without a secret anyone can be rank 1, and fill rank 0 with messages until a signal ends it."""
    port, run = free_port(), os.path.join(folder, "flooded")
    first = start(folder, run, port, 0, "")
    watch = Watch(first.pid)
    version, _ = introduce(reach(port))
    peer = reach(port)
    own = shlex.join(["memtune", *words(run)[1:]])
    answer = introduce(peer, version=version, words=own)[1]
    assert answer == {"welcome": True}, answer
    text = b'{"of":1,"x":"' + b"x" * 1000 + b'"}\n'
    end = time.monotonic() + 3
    peer.settimeout(0.5)
    sent = 0
    while time.monotonic() < end:
        try:
            sent += peer.send(text * 100)
        except TimeoutError:
            pass
    assert first.poll() is None, first.communicate()
    begin = time.monotonic()
    first.send_signal(signal.SIGTERM)
    _, errors = first.communicate(timeout=30)
    took = time.monotonic() - begin
    print(f"flood: {sent >> 20} MiB sent, at most {watch.kib / 1024:.1f} MiB, ended in {took:.2f} s")
    assert first.returncode == 130 and "warning: the ranks share no secret" in errors, (first.returncode, errors)
    assert watch.kib < MOST_KIB and took < 2, (watch.kib, took)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        try:
            check_strangers(place)
            check_flooding_rank(place)
        finally:
            for process in STARTED:
                process.kill()
