"""Measures the disk alone: writes a new file past the page cache with eight requests in flight, and syncs it.

    python raw_disk.py FOLDER --bytes 6628000000

It runs with and without preallocation of the file. The bytes are random, so that no disk compresses them.
"""

import argparse
import itertools
import json
import mmap
import os
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

IN_FLIGHT, PIECE, SECTOR = 8, 8 << 20, 4096


class Writer(threading.Thread):
    """Takes the next number and writes the piece with that number, until none is left."""

    def __init__(self, file: int, size: int, numbers):
        super().__init__()
        self.file, self.size, self.numbers, self.error = file, size, numbers, None
        self.piece = mmap.mmap(-1, PIECE)  # page-aligned
        self.piece.write(os.urandom(PIECE))

    def run(self):
        try:
            for number in self.numbers:
                at = number * PIECE
                if at >= self.size:
                    return
                self.write(at, min(PIECE, self.size - at))
        except OSError as error:
            self.error = error

    def write(self, at: int, size: int):
        done = 0
        while done < size:
            done += os.pwrite(self.file, memoryview(self.piece)[done:size], at + done)


def open_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)


def write_once(path: Path, size: int, ahead: bool) -> Tuple[float, float]:
    """Seconds from creating the file to the end of its sync, and seconds to remove it."""
    numbers = itertools.count()  # next() is atomic for Python's threads
    writers: List[Writer] = [Writer(-1, size, numbers) for _ in range(IN_FLIGHT)]
    start = time.perf_counter()
    file = open_file(path)
    try:
        if ahead:
            os.posix_fallocate(file, 0, size)
        for writer in writers:
            writer.file = file
            writer.start()
        for writer in writers:
            writer.join()
        os.fsync(file)
        seconds = time.perf_counter() - start
    finally:
        os.close(file)
        end = time.perf_counter()
        path.unlink()
    for writer in writers:
        if writer.error:
            raise writer.error
    return seconds, time.perf_counter() - end


def measure(folder: Path, size: int) -> Dict[str, Any]:
    """The rate with and without preallocation, and the longest removal of the file."""
    size = -(-size // SECTOR) * SECTOR
    path, rates, removals = folder / f"raw-disk-{os.getpid()}", {}, []
    for name, ahead in (("plain", False), ("preallocated", True)):
        os.sync()
        seconds, removal = write_once(path, size, ahead)
        rates[name] = size / seconds / 1e9
        removals.append(removal)
    return {"bytes": size, "gb_per_s": rates, "remove_s": max(removals)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--bytes", type=int, default=1 << 30)
    options = p.parse_args()
    print(json.dumps(measure(options.folder, options.bytes)))


if __name__ == "__main__":
    main()
