"""Checks the annotations of the Python plan's files with mypy. check_types.py FOLDER: folder of mypy's cache."""
import os
import subprocess
import sys
import tempfile

import plans

with tempfile.TemporaryDirectory() as folder:
    files = {os.path.join(folder, "_".join(words) + ".py"): words for words in (plans.EAGER, plans.STILL, plans.COMPILED)}
    for path, words in files.items():
        with open(path, "w") as file:
            file.write(plans.joined(words))
    sys.exit(subprocess.run([sys.executable, "-m", "mypy", "--check-untyped-defs", "--disallow-untyped-defs",
                             "--disallow-incomplete-defs", "--warn-unused-ignores", "--follow-imports=silent",
                             "--ignore-missing-imports", "--cache-dir", sys.argv[1], *files]).returncode)
