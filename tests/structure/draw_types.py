"""Draws types of core's headers for a blind reading: names and folders alone, by the hash of the commit.

    python3 draw_types.py [--count 40] [--seed HASH]

A reader who sees only this list says what each type does. Somebody else compares that with the headers. Needs git and the
standard library.
"""

import argparse
import random
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def types():
    """(name, folder) of each class and struct at the outer level of a header, and of each enum class."""
    for header in sorted((ROOT / "core").rglob("*.h")):
        for name in re.findall(r"^(?:class|struct|enum class) (\w+)(?: final)?[^;]*\{", header.read_text(), re.MULTILINE):
            yield name, header.parent.relative_to(ROOT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", default="")
    options = parser.parse_args()
    seed = options.seed or subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], check=True, capture_output=True,
                                          text=True).stdout.strip()
    found = sorted(set(types()))
    print(f"{options.count} of {len(found)} types, seed {seed}")
    for name, folder in sorted(random.Random(seed).sample(found, options.count)):
        print(f"{name}  {folder}")


if __name__ == "__main__":
    main()
