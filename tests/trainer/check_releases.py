"""Lists packages of profiles/trainers of which the index has a newer release than the described one. pip shows only
releases for one Python, so it is asked for each.

  check_releases.py [--pip COMMAND]

--pip is asked instead of this Python's pip. Exit code 1 if the index has no release of a package.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

PROFILES = pathlib.Path(__file__).parent / "../../profiles/trainers"
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]


def number(release):
    return [int(part) for part in re.findall(r"\d+", release)]


def newest(package, pip):
    """The newest release for any Python, or "" if there is none."""
    found = []
    for python in PYTHONS:
        command = [*pip, "index", "versions", "--python-version", python, "--only-binary=:all:", package]
        said = subprocess.run(command, capture_output=True, text=True).stdout
        found += re.findall(rf"^{re.escape(package)} \(([\d.]+)\)", said, re.IGNORECASE | re.MULTILINE)
    return max(found, key=number, default="")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pip", type=shlex.split, default=[sys.executable, "-m", "pip"])
    pip = parser.parse_args().pip
    described = {}
    for path in sorted(PROFILES.glob("*.json")):
        for package, release in json.loads(path.read_text())["releases"].items():
            described[package] = max(described.get(package, release), release, key=number)
    missing = 0
    for package, release in described.items():
        now = newest(package, pip)
        missing += not now
        if not now:
            print(f"{package}: the index has no release")
        elif number(now) > number(release):
            print(f"{package}: described is {release}, the newest is {now}")
    print(f"{len(described)} packages, {missing} not found")
    sys.exit(missing > 0)


if __name__ == "__main__":
    main()
