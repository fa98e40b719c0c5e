"""Trains one model of each front end in memtune and in Python, and compares all bits.

    python models_smoke.py MEMTUNE torchscript|exported|transformers

The TorchScript model runs under every strategy that `memtune strategies` lists. The checkers of tests/models do the
work. There they check many more models.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = Path(__file__).resolve().parents[1] / "models"
PARAMETERS = {"checkpoint:every=n": "checkpoint:every=2"}


def python(script: str, *arguments: str):
    subprocess.run([sys.executable, MODELS / script, *arguments], check=True)


def strategies(memtune: str):
    """A command line's --strategy flags, one for each name. Tensors of all sizes are offloaded where that is a choice."""
    listed = json.loads(subprocess.run([memtune, "strategies", "--json", "-"], check=True, stdout=subprocess.PIPE).stdout)
    for strategy in listed["strategies"]:
        small = ",min=0" if any(parameter["name"] == "min" for parameter in strategy["parameters"]) else ""
        yield from ("--strategy", PARAMETERS.get(strategy["name"], strategy["name"]) + small)


def torchscript(memtune: str):
    with tempfile.TemporaryDirectory() as folder:
        python("make_models.py", "--only", "gpt_tied", "--out", folder)
        python("check_against_python.py", "--models", folder, "--memtune", memtune, "--only", "gpt_tied_script",
               "--at-least", "1", *strategies(memtune))


def exported(memtune: str):
    python("check_exported.py", "--library", "own", "--only", "everything", "--memtune", memtune)


def transformers(memtune: str):
    python("check_transformers.py", "--only", "qwen3-biased", "--memtune", memtune)


if __name__ == "__main__":
    {check.__name__: check for check in (torchscript, exported, transformers)}[sys.argv[2]](sys.argv[1])
