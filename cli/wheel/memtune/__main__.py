"""Starts memtune's program with the engine for the PyTorch of this environment. Nothing of PyTorch is imported."""
import importlib.util
import os
import re
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def engines():
    """The PyTorch releases that have an engine here, as (2, 11), oldest first."""
    names = os.listdir(os.path.join(FOLDER, "engines"))
    return sorted(tuple(map(int, name.split("."))) for name in names if re.fullmatch(r"\d+\.\d+", name))


def name_of(release):
    return ".".join(map(str, release))


def torch_version():
    """Folder, version and CUDA release of the environment's PyTorch, as (folder, "2.11.0+cu130", "13.0"); None: there
    is none. The CUDA release is "" in a build for the CPU. The one beside memtune comes first, whatever the path says."""
    folder = os.path.join(os.path.dirname(FOLDER), "torch")
    if not os.path.exists(os.path.join(folder, "version.py")):
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.submodule_search_locations:
            return None
        folder = os.path.abspath(spec.submodule_search_locations[0])
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    found = re.search(r"__version__ = ['\"](\d[^'\"]*)", text)
    cuda = re.search(r"^cuda(?:: [^=]*)? = ['\"]([\d.]+)", text, re.M)
    return (folder, found[1], cuda[1] if cuda else "") if found else None


def choose_engine():
    """The engine's release and ""; or "" and why there is none, with the way out."""
    built = engines()
    names = ", ".join(map(name_of, built))
    torch = torch_version()
    if torch is None:
        return "", f"there is no PyTorch in this environment: pip install 'memtune[engine]' (PyTorch {names})"
    folder, version, cuda = torch
    released = re.fullmatch(r"(\d+)\.(\d+)\.\d+(\+.*)?", version)  # others have C++ interfaces of their own
    release = (int(released[1]), int(released[2])) if released else None
    if release not in built:
        return "", f"there is no engine for PyTorch {version}, only for releases of {names}: install one of these"
    if cuda and not cuda.startswith("13."):
        return "", (f"this PyTorch {name_of(release)} is built for CUDA {cuda}, and the engine for CUDA 13: "
                    "install PyTorch from PyPI")
    # The engine finds its libraries relative to itself, by the path behind links of its own.
    engine = os.path.realpath(os.path.join(FOLDER, "engines", name_of(release)))
    theirs, ours = os.path.dirname(folder), os.path.dirname(os.path.dirname(os.path.dirname(engine)))
    if not os.path.samefile(theirs, ours):
        return "", f"PyTorch is in {theirs} and memtune in {ours}: install memtune where PyTorch is, without links"
    return name_of(release), ""


def main():
    environment = dict(os.environ, MEMTUNE_PYTHON=sys.executable)  # that memtune convert runs
    for name in ("MEMTUNE_ENGINE", "MEMTUNE_NO_ENGINE"):  # of another memtune that started this one
        environment.pop(name, None)
    if not environment.get("MEMTUNE_TRIAL"):
        release, why = choose_engine()
        if release:
            environment["MEMTUNE_TRIAL"] = os.path.join(FOLDER, "engines", release, "memtune-trial")
            environment["MEMTUNE_ENGINE"] = release
        else:
            environment["MEMTUNE_NO_ENGINE"] = why
    program = os.path.join(FOLDER, "bin", "memtune")
    os.execve(program, [program, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
