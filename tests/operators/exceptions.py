"""Reads exceptions.txt, the operators that cannot be tested. Needs only the standard library."""

import fnmatch
import sys


def read_exceptions(path: str) -> list:
    """Returns patterns of the form "operator dtype mode"."""
    with open(path) as file:
        lines = [line for line in file if line.strip() and not line.startswith("#")]
    for line in lines:
        if not line.partition(":")[2].strip():
            sys.exit(f"{path}: no cause: {line.strip()}")
    return [" ".join(line.partition(":")[0].split()) for line in lines]


def names(pattern: str, keys) -> set:
    return set(fnmatch.filter(keys, pattern))
