"""Writes small TorchScript models, their inputs, and the results of Python.

    python make_models.py --out build/models              # a minute at most; nothing if all is up to date
    python make_models.py --out build/models --only vit   # models with "vit" in their name
    python make_models.py --out build/zoo --zoo --jobs 4  # the large set of library models, some minutes
    python make_models.py --out build/models --few        # those on which every change is tested

    OUT/model_index.json              models (name, kind, file, inputs, expected, loss_kind, deterministic, tags),
                                      failed exports, bad files, missing libraries
    OUT/NAME_KIND/model.pt            random weights in float32, training mode; KIND is script or trace
    OUT/NAME_KIND/inputs.safetensors  named as forward's arguments, and the loss's target
    OUT/NAME_KIND/expected.json       loss and checksums of the gradients, from plain Python on two threads
    OUT/bad/                          files that the loader must refuse

With MEMTUNE_NIGHT, --few takes all of the tests' own models. scripts/nightly makes the large set without --few.

Needs only torch. torchvision and transformers add their models if they are installed.
"""

import argparse
import glob
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from arithmetic import arithmetic

LIBRARIES = ("torch", "torchvision", "transformers", "timm", "torchaudio")


def version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def stamp(only: str, zoo: bool) -> str:
    """Changes with these scripts, the models that they import, the versions of the libraries and the processor's
    arithmetic. Imports none of the libraries."""
    here = os.path.dirname(os.path.abspath(__file__))
    bench = [os.path.join(here, "..", "..", "bench", name) for name in ("model.py", "safetensors_file.py")]
    digest = hashlib.sha256(only.encode())
    for path in sorted(glob.glob(os.path.join(here, "*.py"))) + bench:
        name = os.path.basename(path)
        if not name.startswith("check_") and (zoo or not name.startswith("zoo_")):
            with open(path, "rb") as file:
                digest.update(file.read())
    libraries = LIBRARIES if zoo else LIBRARIES[:3]
    return ", ".join([f"{name} {version(name)}" for name in libraries] + [arithmetic(), digest.hexdigest()[:16]])


def up_to_date(out: str, current: str) -> bool:
    try:
        with open(os.path.join(out, "model_index.json")) as file:
            index = json.load(file)
    except (OSError, ValueError):
        return False
    files = [m[key] for m in index["models"] for key in ("file", "inputs", "expected")] + list(index["bad"])
    return index["stamp"] == current and all(os.path.exists(os.path.join(out, f)) for f in files)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, help="folder")
    p.add_argument("--only", default="", help="part of a model's name; the index then lists these alone")
    p.add_argument("--zoo", action="store_true", help="the libraries' models instead of the tests' own")
    p.add_argument("--few", action="store_true", help="those on which every change is tested")
    p.add_argument("--jobs", type=int, default=1, help="models at a time")
    p.add_argument("--force", action="store_true", help="also when all is up to date")
    options = p.parse_args()
    if importlib.util.find_spec("torch") is None:
        print(f"make_models.py: {sys.executable} has no torch; set MEMTUNE_TEST_PYTHON to a python that has it",
              file=sys.stderr)
        return 2
    few = options.few and (options.zoo or "MEMTUNE_NIGHT" not in os.environ)
    current = stamp(f"{options.only} {few}", options.zoo)
    if not options.force and up_to_date(options.out, current):
        print(f"{options.out} is up to date")
        return 0
    warnings.filterwarnings("ignore")
    from write_models import write_all  # here, because it imports every library
    index = {"stamp": current, **write_all(options.out, options.only, options.zoo, few, options.jobs)}
    with open(os.path.join(options.out, "model_index.json"), "w") as file:
        json.dump(index, file, indent=1)
    print(f"{len(index['models'])} models in {options.out}, {len(index['not_exported'])} not exported")
    return 1 if index["not_exported"] else 0


if __name__ == "__main__":
    sys.exit(main())
