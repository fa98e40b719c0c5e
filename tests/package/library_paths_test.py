"""Checks that programs and modules search libraries only in fixed folders. An empty or relative path means the current
folder, so libraries in a model's folder could be executed.

    python3 library_paths_test.py FOLDER PROGRAM...

Each PROGRAM must be in FOLDER or below. Needs readelf.
"""

import re
import subprocess
import sys
from pathlib import Path


def is_fixed(folder):
    return folder.startswith("/") or folder.split("/")[0] in ("$ORIGIN", "${ORIGIN}")


def objections(dynamic_section):
    """Problems in the output of readelf -d."""
    wrong = []
    for paths in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic_section):
        wrong += [f"looks for libraries in '{folder}', of '{paths}'" for folder in paths.split(":") if not is_fixed(folder)]
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic_section):
        if "/" in library and not is_fixed(library):
            wrong.append(f"loads '{library}'")
    return wrong


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def check_objections():
    line = " 0x1d (RUNPATH)  Library runpath: [{}]"
    for paths in ("/a/lib", "/a/lib:$ORIGIN/../lib", "$ORIGIN", "${ORIGIN}/lib"):
        assert not objections(line.format(paths)), paths
    for paths in ("", "/a/lib:", ":/a/lib", "/a::/b", "lib", "/a/lib:.", "$ORIGINAL/lib"):
        assert len(objections(line.format(paths))) == 1, paths
    assert not objections(" 0x01 (NEEDED)  Shared library: [libm.so.6]")
    assert objections(" 0x01 (NEEDED)  Shared library: [./libm.so.6]")


def main(folder, *programs):
    check_objections()
    found = {path.name: path for path in sorted(Path(folder).rglob("*")) if path.is_file() and is_elf(path)}
    wrong = [f"{name} is not in {folder}" for name in programs if name not in found]
    for path in found.values():
        section = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
        wrong += [f"{path} {objection}" for objection in objections(section)]
    print("\n".join(wrong) or f"{len(found)} programs and modules")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
