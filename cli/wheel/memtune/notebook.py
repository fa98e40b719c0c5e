"""Measures training in this process, as in a notebook. The hooks are those of memtune profile -- COMMAND."""
import gc
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
# What the hooks replace, by module. Saves are not watched: a block ends before its files matter.
REPLACED = {
    "torch.cuda": ("make_graphed_callables",),
    "torch.optim.optimizer": ("Optimizer.__init__",),
    "torch.autograd": ("backward",),
    "torch.amp.grad_scaler": ("GradScaler.step", "GradScaler.scale"),
    "torch.utils.data.dataloader": ("_BaseDataLoaderIter.__next__",),
    "transformers.generation.utils": ("GenerationMixin.generate",),
}


class Profile:
    """What was measured, once the block has ended. `report` is the text of memtune profile, `json` its answer."""

    def __init__(self, steps, warmup, out):
        self.flags = ["--steps", str(steps), "--warmup", str(warmup), *(["--out", out] if out else [])]
        self.variables = {"MEMTUNE_ATTACH_STEPS": "%d+%d+2" % (warmup, steps),
                          "MEMTUNE_ATTACH_CUPTI": os.path.join(FOLDER, "bin", "libmemtune_injection.so")}
        self.report = self.json = None

    def __enter__(self):
        import torch.utils.data.dataloader

        if "MEMTUNE_ATTACH" in os.environ:
            raise RuntimeError("memtune measures this process already")
        self.folder = tempfile.TemporaryDirectory(prefix="memtune-notebook-")
        self.variables["MEMTUNE_ATTACH"] = os.path.join(self.folder.name, "records")
        os.mkdir(self.variables["MEMTUNE_ATTACH"])
        open(os.path.join(self.variables["MEMTUNE_ATTACH"], "python"), "w").close()  # as the shim, in a command
        os.environ.update(self.variables)
        self.before = [(owner, name, getattr(owner, name)) for owner, name in places()]
        hooks = sys.modules["torch.optim.optimizer"]  # torch.optim has deleted its name
        self.hooks = [(each, list(each)) for each in (hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks)]
        reset_peaks()
        spec = importlib.util.spec_from_file_location("memtune_shim", os.path.join(FOLDER, "shim", "sitecustomize.py"))
        self.shim = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.shim)
        self.training = self.shim.start_training()
        for name in REPLACED:
            if name in sys.modules:
                self.shim.guarded(self.shim.Watcher.modules[name])(sys.modules[name])
        for each in reversed(gc.get_objects()):  # those that were created before the block, the latest first
            if issubclass(type(each), torch.optim.Optimizer) and "param_groups" in vars(each):  # no wrapper
                self.shim.guarded(self.training.created)(each)
        return self

    def __exit__(self, kind, value, trace):
        measured = self.training.over and kind is SystemExit  # raised after the last step
        try:
            if kind is not None and not measured:
                self.shim.guarded(self.training.exception)(kind, value)
            self.shim.guarded(self.training.flush_held)()
        finally:
            self.detach()
        try:
            self.read()
        finally:
            self.folder.cleanup()
        print(self.report, flush=True)
        return measured

    def detach(self):
        """Leaves PyTorch and the models as they were."""
        import torch

        self.training.detach()
        for owner, name, value in self.before:
            setattr(owner, name, value)
        for hooks, keys in self.hooks:
            for key in set(hooks).difference(keys):
                del hooks[key]
        for name in self.variables:
            os.environ.pop(name, None)

    def read(self):
        """The program judges the records and writes the report, as for a command."""
        answer = os.path.join(self.folder.name, "answer.json")
        done = subprocess.run([os.path.join(FOLDER, "bin", "memtune"), "profile", "-q", "--no-color", *self.flags, "--json",
                               answer, "--", sys.executable, "notebook"], capture_output=True, encoding="utf-8",
                              env=dict(os.environ, MEMTUNE_RECORDS=self.variables["MEMTUNE_ATTACH"]))
        if not os.path.exists(answer):
            raise RuntimeError(done.stderr.strip() or "memtune profile ended with %d" % done.returncode)
        self.report = done.stdout.partition("\n $ memtune profile ")[0] + "\n"  # without the command line of this call
        with open(answer, encoding="utf-8") as file:
            self.json = json.load(file)


def places():
    """The objects and names of REPLACED that are loaded."""
    for module, paths in REPLACED.items():
        for path in paths if module in sys.modules else ():
            owner, _, name = path.rpartition(".")
            yield (getattr(sys.modules[module], owner) if owner else sys.modules[module]), name


def reset_peaks():
    """The peak is that of the block."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:  # the peak is then that of the process
        pass


def profile(function=None, *, steps=5, warmup=2, out=None):
    measured = Profile(steps, warmup, out)
    if function is None:
        return measured
    with measured:
        function()
    return measured
