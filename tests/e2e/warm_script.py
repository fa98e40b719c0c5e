"""Runs a script under the shim in a fork of this process, which has imported PyTorch: a process of its own takes seconds.

The hooks are set as in a notebook, after the import. tests/e2e/command_test.py has processes of their own.
"""
import atexit
import importlib.util
import os
import runpy
import sys
import tempfile

import torch._dynamo  # noqa: F401  # which optimizers import


def run(shim, script, arguments, environment, folder):
    """What the script printed. It runs in `folder`, and `environment` is added to this process's."""
    with tempfile.TemporaryFile("w+") as output:
        process = os.fork()
        if process == 0:
            try:
                run_here(shim, script, arguments, environment, folder, output)
            finally:
                os._exit(0)
        status = os.waitpid(process, 0)[1]
        output.seek(0)
        printed = output.read()
        assert os.WIFEXITED(status), (status, printed)
        return printed


def run_here(shim, script, arguments, environment, folder, output):
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", buffering=1, closefd=False) for descriptor in (1, 2))
    os.chdir(folder)
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    atexit._clear()  # those of this process remove its files
    attach(shim)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit:
        pass
    except BaseException:
        kind, sys.last_value, trace = sys.exc_info()
        sys.excepthook(kind, sys.last_value, trace)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()


def attach(folder):
    spec = importlib.util.spec_from_file_location("memtune_shim", os.path.join(folder, "sitecustomize.py"))
    shim = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shim)
    watcher = shim.Watcher()
    shim.Watcher.begin()
    for name in list(watcher.left):
        if name in sys.modules:
            shim.guarded(watcher.left.pop(name))(sys.modules[name])
    sys.meta_path.insert(0, watcher)
