"""Gives memtune damaged exported models: cut off at every record, and with flipped bits everywhere.

    python check_damaged.py --memtune build/release/bin/memtune [--flips 10]

A cut file must end in one line and exit code 2. So must a flipped bit, unless it is in the weights or in a part that is
not read. Then a trial must run without a crash. Exit code 1 on a failure. Needs torch.
"""

import argparse
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile
import zipfile

import torch
from torch import nn


def write_model(path: str):
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).train()
    program = torch.export.export(model, (torch.randn(4, 8),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, path)


def places(path: str):
    """Returns (name, begin, end) of each record's content in file order, and the size of the file."""
    found = []
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            begin = info.header_offset + 30 + name + extra
            found.append((info.filename.split("/", 1)[1], begin, begin + info.file_size))
    return found, os.path.getsize(path)


class Damage:
    def __init__(self, options, whole: bytes, folder: str):
        self.options, self.whole, self.folder = options, whole, folder

    def run(self, name: str, content: bytes):
        path = os.path.join(self.folder, f"{name}.pt2")
        with open(path, "wb") as file:
            file.write(content)
        done = subprocess.run([self.options.memtune, "sweep", "--model", path, "--loss", "cross_entropy", "--device", "cpu",
                               "--strategy", "none", "--steps", "1", "--warmup", "0", "--rounds", "1",
                               "--out", os.path.join(self.folder, name)], capture_output=True, text=True, timeout=120)
        os.remove(path)
        return done

    def refused(self, done) -> bool:
        return done.returncode == 2 and re.fullmatch(r"memtune: [^\n]*\n", done.stderr) and not done.stdout

    def cut(self, at: int) -> str:
        """Returns the problem; "": none."""
        done = self.run(f"cut-{at}", self.whole[:at])
        return "" if self.refused(done) else f"cut at {at}: exit code {done.returncode}: {done.stderr[-300:]}"

    def flip(self, at: int, must_be_refused: bool) -> str:
        content = bytearray(self.whole)
        content[at] ^= 1 << at % 8
        done = self.run(f"flip-{at}", bytes(content))
        if self.refused(done) or (done.returncode == 0 and not must_be_refused):
            return ""
        return f"flip at {at}: exit code {done.returncode}: {done.stderr[-300:]}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    p.add_argument("--flips", type=int, default=1, help="of each record and between records")
    options = p.parse_args()
    random.seed(1)
    with tempfile.TemporaryDirectory(prefix="memtune-damaged-") as folder:
        path = os.path.join(folder, "model.pt2")
        write_model(path)
        with open(path, "rb") as file:
            damage = Damage(options, file.read(), folder)
        records, size = places(path)
        jobs = [(damage.cut, (at,)) for _, begin, end in records for at in (begin, (begin + end) // 2)]
        before = 0
        for name, begin, end in records:
            text = name.endswith(".json") or name == "archive_format"
            jobs += [(damage.flip, (random.randrange(begin, end), text)) for _ in range(options.flips if end > begin else 0)]
            jobs += [(damage.flip, (random.randrange(before, begin), False)) for _ in range(options.flips)]
            before = end
        jobs += [(damage.flip, (random.randrange(before, size), False)) for _ in range(10 * options.flips)]
        jobs = list(dict.fromkeys(jobs))  # each place once
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            failures = [said for said in pool.map(lambda job: job[0](*job[1]), jobs) if said]
    for said in failures:
        print(said)
    print(f"{len(jobs) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
