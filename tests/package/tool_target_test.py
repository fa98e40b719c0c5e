"""Checks that the target `tool` builds all files that the component `tool` installs from the build folder.
scripts/memtune builds only that target, and the installation after it must not miss a file.

    python3 tool_target_test.py BUILD NINJA
"""

import re
import subprocess
import sys
from pathlib import Path


def installed_from(build):
    """Files and folders of the build that the install scripts list for the component."""
    found = set()
    for script in build.rglob("cmake_install.cmake"):
        for component, rules in re.findall(r'CMAKE_INSTALL_COMPONENT STREQUAL "(\w+)".*?\n(.*?)\nendif\(\)',
                                           script.read_text(), re.DOTALL):
            if component == "tool":
                found.update(path for path in re.findall(r'"([^"]+)"', rules) if path.startswith(f"{build}/"))
    return found


def main(build, ninja):
    build = Path(build).absolute()
    graph = subprocess.run([ninja, "-C", build, "-t", "graph", "tool"], check=True, capture_output=True, text=True).stdout
    made = {str(build / path) for path in re.findall(r'label="([^"]+)"', graph)}
    made |= {str(folder) for path in made for folder in Path(path).parents}
    installed = installed_from(build)
    missing = sorted(installed - made)
    print("\n".join(f"the target 'tool' does not make {path}" for path in missing) or f"{len(installed)} files and folders")
    return 1 if missing or not installed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
