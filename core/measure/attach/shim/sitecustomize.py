"""Measures the training in a Python process, from one optimizer step to the next, without changing it.

memtune writes this file as sitecustomize.py into a private folder, first on PYTHONPATH. It waits until PyTorch is
imported, then watches optimizers, backward, gradient scalers and saves. After enough steps it ends the script as
sys.exit() would. Python 3.8 or newer, PyTorch 2.4 or newer.

MEMTUNE_ATTACH        folder for the records: one file per process, one JSON object per line
MEMTUNE_ATTACH_STEPS  "2+5+2": steps of warm-up, measured steps, traced steps; one more before the traced does not count
MEMTUNE_ATTACH_CUPTI  library that traces kernels and copies; "": none
MEMTUNE_ATTACH_CAP    bytes of its device that a process may use, CUDA context and libraries included; 0: all
MEMTUNE_ATTACH_PLAN   plan by memtune export, under which the model is trained; "": none
MEMTUNE_ATTACH_SHOW   "1": the output is shown, so stdout is written line by line, as on a terminal
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


# --- hooks in PyTorch, set as its modules are imported

training = None


def guarded(tell):
    """An error in memtune's code becomes a note and never affects the script."""

    def call(*arguments):
        try:
            if is_capturing():
                return training.note("what a CUDA graph has captured is not seen when it is replayed")
            return tell(*arguments)
        except Exception as error:
            try:
                training.note("memtune's measuring failed: %s: %s" % (type(error).__name__, error))
            except Exception:  # the folder is gone, or full
                pass

    return call


def is_capturing():
    """A CUDA graph must not capture anything of memtune."""
    cuda = sys.modules.get("torch.cuda")
    asks = getattr(cuda, "is_current_stream_capturing", None)
    return training is not None and asks is not None and cuda.is_initialized() and asks()


def watch_optimizers(module):
    import functools

    created = module.Optimizer.__init__

    @functools.wraps(created)
    def __init__(self, *arguments, **named):
        created(self, *arguments, **named)
        guarded(training.created)(self)

    module.Optimizer.__init__ = __init__
    module.register_optimizer_step_pre_hook(lambda optimizer, *_: guarded(training.begin_update)())
    module.register_optimizer_step_post_hook(lambda optimizer, *_: guarded(training.end_update)(optimizer))


def watch_backward(module):
    import functools

    original = module.backward

    @functools.wraps(original)
    def backward(tensors, grad_tensors=None, *arguments, **named):
        guarded(training.begin_backward)(tensors, grad_tensors)
        try:
            return original(tensors, grad_tensors, *arguments, **named)
        finally:
            guarded(training.end_backward)()

    module.backward = backward


def watch_scaler(module):
    """After an overflow a scaler skips the optimizer. Backward starts from the loss times its scale."""
    import functools

    step, scale = module.GradScaler.step, module.GradScaler.scale

    @functools.wraps(step)
    def watched_step(self, optimizer, *arguments, **named):
        before = training.calls
        result = step(self, optimizer, *arguments, **named)
        if training.calls == before:
            guarded(training.skipped)(optimizer)
        return result

    @functools.wraps(scale)
    def watched_scale(self, outputs):
        result = scale(self, outputs)
        if self.is_enabled() and hasattr(outputs, "detach"):
            result._memtune_loss = guarded(training.reading)(outputs)
        return result

    module.GradScaler.step, module.GradScaler.scale = watched_step, watched_scale


def watch_cuda(module):
    try:
        training.device_memory = load("memtune_device_memory").DeviceMemory()
    except (OSError, AttributeError):  # no driver, or an old one
        pass
    cap_memory(module)
    watch_graphs(module)
    module._lazy_call(lambda: guarded(training.oom.start)(guarded(training.oom.failed)))  # once CUDA is initialised


def watch_graphs(module):
    import functools

    original = module.make_graphed_callables

    @functools.wraps(original)
    def make_graphed_callables(*arguments, **named):
        """It takes no modules that have hooks."""
        guarded(training.forwards.detach)()
        try:
            return original(*arguments, **named)
        finally:
            guarded(training.forwards.attach_again)()

    module.make_graphed_callables = make_graphed_callables


def cap_memory(module):
    cap = int(os.environ.get("MEMTUNE_ATTACH_CAP", "0"))

    def set_cap():
        # Only for the device that this rank trains on: to ask another would allocate memory there.
        local = os.environ.get("LOCAL_RANK", "")
        device = int(local) % module.device_count() if local.isdigit() else module.current_device()
        total = module.get_device_properties(device).total_memory
        left = max(1, cap - training.unmanaged_bytes(device))
        module.set_per_process_memory_fraction(min(1.0, left / total), device)

    if cap > 0:
        module._lazy_call(guarded(set_cap))  # once CUDA is initialised
        training.cap_again = guarded(set_cap)  # libraries load kernels in the first steps


def watch_saves(name):
    def install(module):
        import functools
        import time

        original = getattr(module, name)

        @functools.wraps(original)
        def save(*arguments, **named):
            if training.saving:
                return original(*arguments, **named)
            arguments = list(arguments)
            given, key = (arguments, 1) if len(arguments) > 1 else (named, "f" if "f" in named else "filename")
            target = arguments[1] if key == 1 else named.get(key)
            training.saving = True
            marked = training.shares.enter("save")
            try:
                if isinstance(target, (str, os.PathLike)):
                    target = given[key] = guarded(path_for)(target) or target
                began = time.perf_counter()
                result = original(*arguments, **named)
                guarded(training.saved)(time.perf_counter() - began, size_of(target))
                return result
            finally:
                training.saving = False
                if marked:
                    training.shares.leave()

        setattr(module, name, save)

    return install


def watch_generation(module):
    import functools

    original = module.GenerationMixin.generate

    @functools.wraps(original)
    def generate(*arguments, **named):
        marked = training.shares.enter("generation")
        try:
            return original(*arguments, **named)
        finally:
            if marked:
                training.shares.leave()

    module.GenerationMixin.generate = generate


def path_for(target):
    """The path to which a save goes: beside a file of the user's that was there before the command began."""
    path = os.fsdecode(target)
    began = os.stat(os.path.join(HERE, "sitecustomize.py")).st_mtime
    if not os.path.isfile(path) or os.stat(path).st_ctime >= began:
        return target
    if path not in set_aside:
        if not set_aside:
            import atexit

            atexit.register(remove_saves, os.getpid())
        set_aside[path] = path + ".memtune"
        training.note("'%s' was there before and is kept: the command's saves of it went to '%s.memtune' and are "
                      "removed" % (path, path))
    return set_aside[path]


set_aside = {}  # by path of a file that is kept


def remove_saves(process):
    for path in set_aside.values() if process == os.getpid() else ():
        try:
            os.remove(path)
        except OSError:
            pass


def size_of(target):
    try:
        return os.path.getsize(target) if isinstance(target, (str, os.PathLike)) else target.tell()
    except (OSError, AttributeError, ValueError):
        return 0


def watch_batches(module):
    training.batches = load("memtune_batches").Batches(module, training.shares)


def watch_policies(module):
    import torch.version

    release = ".".join(torch.version.__version__.split(".")[:2])
    load("memtune_policies").watch(module, release, guarded(training.note))


def watch_modules(module):
    plan = os.environ.get("MEMTUNE_ATTACH_PLAN")
    if plan:
        training.applying = load("memtune_applying").Applying(training, plan)
        training.applying.watch(module)


def watch_exceptions():
    previous = sys.excepthook

    def hook(kind, value, trace):
        guarded(training.exception)(kind, value)
        previous(kind, value, trace)

    sys.excepthook = hook

    def at_exit():
        """The script may have replaced sys.excepthook."""
        value = getattr(sys, "last_value", None)
        if value is not None and value is not training.raised:
            guarded(training.exception)(type(value), value)
        guarded(training.flush_held)()

    import atexit

    atexit.register(at_exit)


class Watcher:
    """A finder that loads a module as usual, and adds hooks once it has run."""

    modules = {
        "torch.cuda": watch_cuda,
        "torch.nn.modules.module": watch_modules,
        "torch.optim.optimizer": watch_optimizers,
        "torch.autograd": watch_backward,
        "torch.amp.grad_scaler": watch_scaler,
        "torch.utils.checkpoint": watch_policies,
        "torch.utils.data.dataloader": watch_batches,
        "torch.serialization": watch_saves("save"),
        "transformers.generation.utils": watch_generation,
        "safetensors.torch": watch_saves("save_file"),
    }

    def __init__(self):
        self.left = dict(self.modules)

    def find_spec(self, name, path, target=None):
        watch = self.left.pop(name, None)
        if watch is None:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            guarded(self.begin)()
            if training is not None:
                guarded(watch)(module)

        spec.loader.exec_module = exec_module
        return spec

    @staticmethod
    def begin():
        if training is None:
            start_training()
            watch_exceptions()


def start_training():
    global training
    for name in ("memtune_losses", "memtune_periods", "memtune_process", "memtune_parts", "memtune_forwards",
                 "memtune_oom", "memtune_growth", "memtune_memory", "memtune_shares",
                 "memtune_timeline"):  # imported by later ones
        load(name)
    begun = load("memtune_training").Training()
    open(os.path.join(begun.folder, "torch"), "a").close()
    training = begun
    return begun


def load(name):
    """Loads a module by its path, because the script must not find this folder on sys.path."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run_next(name):
    """Runs the environment's own sitecustomize, which this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = PathFinder.find_spec(name, sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


if os.environ.get("MEMTUNE_ATTACH") and __name__ == "sitecustomize":
    try:
        open(os.path.join(os.environ["MEMTUNE_ATTACH"], "python"), "a").close()
        sys.meta_path.insert(0, Watcher())
    except OSError:  # the folder is gone: measuring has ended
        pass
    if os.environ.get("MEMTUNE_ATTACH_SHOW") and sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)
    run_next(__name__)
