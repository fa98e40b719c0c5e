"""Checks the annotations of the Python plan's files with mypy. check_types.py FOLDER: folder of mypy's cache.

mypy reads PyTorch's types for a minute, so without MEMTUNE_NIGHT every type of PyTorch is Any."""
import os
import subprocess
import sys
import tempfile

import plans

with tempfile.TemporaryDirectory() as folder:
    files = {os.path.join(folder, "_".join(words) + ".py"): words
             for words in (plans.EAGER, plans.STILL, plans.COMPILED, plans.STATES, plans.MOVING_STATES)}
    for path, words in files.items():
        with open(path, "w") as file:
            file.write(plans.joined(words))
    imports = ["--follow-imports=silent", "--warn-unused-ignores"] if plans.NIGHT else ["--follow-imports=skip"]
    sys.exit(subprocess.run([sys.executable, "-m", "mypy", "--check-untyped-defs", "--disallow-untyped-defs",
                             "--disallow-incomplete-defs", *imports, "--ignore-missing-imports",
                             "--cache-dir", sys.argv[1], *files]).returncode)
