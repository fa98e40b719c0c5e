"""Runs the examples of docs/how-to/export-a-model.md: each library's Python lines unchanged, its command, and one
trial.

    python check_docs.py --memtune build/release/bin/memtune

Without MEMTUNE_NIGHT only the first library runs. Prints a line for each library. Exit code 1 on a failure.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "how-to", "export-a-model.md")
LIBRARIES = ("torchvision", "timm")


def blocks(library: str):
    """The indented blocks of the section: the Python lines, and the command."""
    with open(PAGE) as file:
        section = file.read().split(f"\n## {library}\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:^    .*\n)+(?:\n(?=    import))?", section, re.MULTILINE)
    code, command = ("".join(line[4:] + "\n" for line in block.splitlines()) for block in found)
    assert code.startswith("import ") and command.startswith("scripts/memtune sweep "), found
    return code, shlex.split(command)[1:]


def python(code: str, folder: str):
    done = subprocess.run([sys.executable, "-"], input=code, cwd=folder, text=True, capture_output=True, timeout=300,
                          env=dict(os.environ, HF_HUB_OFFLINE="1"))
    if done.returncode != 0:
        raise RuntimeError(f"the page's Python: {done.stderr.strip()[-400:]}")


def check(options, library: str):
    code, command = blocks(library)
    with tempfile.TemporaryDirectory(prefix="memtune-docs-") as folder:
        python(code, folder)
        done = subprocess.run([options.memtune, *command, "--device", "cpu", "--strategy", "none", "--strategy", "checkpoint:full",
                               "--steps", "1", "--warmup", "0", "--rounds", "1", "--json", "-"], cwd=folder, text=True,
                              capture_output=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-400:]}")
        answer = json.loads(done.stdout)
        none, full = answer["trials"]
        if none["outcome"] != "ok" or full["gradients"]["equal"] is not True:
            raise RuntimeError("checkpoint:full has other gradients")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--memtune", required=True, help="the program")
    options = p.parse_args()
    failed = 0
    for library in LIBRARIES if "MEMTUNE_NIGHT" in os.environ else LIBRARIES[:1]:
        try:
            check(options, library)
            print(f"ok   {library}", flush=True)
        except (RuntimeError, subprocess.TimeoutExpired) as failure:
            failed += 1
            print(f"FAIL {library}: {failure}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
