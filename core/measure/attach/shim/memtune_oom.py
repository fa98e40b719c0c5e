"""Explains an allocation that failed on the device: who holds the memory, by kind and by line of the source.

PyTorch keeps the Python stack of each live block, without a history: about 2 us for an allocation. At a failure its
observer is called before the exception is raised. It reads and writes one record; it allocates nothing on the device.

MEMTUNE_MEMORY_HISTORY  "0": no stacks are kept, so a record has kinds and no lines
"""

import os
import sys
import weakref

import memtune_parts
import memtune_process

WRITTEN = 8  # records that are written at once; of later failures, as of a search for a batch size, only the last one
LINES = 10  # of the source, the largest
MODELS = 8
STEPS = 64  # the last ones, whose memory is compared
TEXT = 300  # characters of a name or of a source line
MOST = 1 << 50  # bytes of a request: a wrong size may be any number
NESTED = 4  # levels of lists in the state of an optimizer
OPTIMIZERS = 8  # a script may have one for each parameter


told = memtune_parts.harmless("which models run without being trained is not known")


class OutOfMemoryBreakdown:
    def __init__(self, training):
        self.training = training
        self.optimizers, self.asked, self.over = weakref.WeakSet(), 0, False
        self.watched, self.ran = weakref.WeakSet(), weakref.WeakSet()  # models; those that ran with gradients
        self.handles = []
        self.written, self.waiting = 0, None
        self.reset()
        self.recording = False  # the stacks of live blocks, by memtune

    def reset(self):
        self.held, self.amounts = [], []  # after each of the last steps: bytes allocated; its largest batch
        self.amount = 0  # of the step so far
        self.before = 0  # bytes allocated when the model last began to run after a backward; 0: not known
        self.runs = []  # bytes allocated before each run without gradients since the last backward
        self.latest = self.largest = (0, 0, 0)  # batch of the last backward; the largest one before it

    # --- called by the hooks

    def start(self, observer):
        """Once CUDA is initialised. A script that records itself keeps its settings."""
        import torch

        if torch.cuda.get_allocator_backend() != "native":  # others keep no stacks and call no observer
            return
        if os.environ.get("MEMTUNE_MEMORY_HISTORY") != "0" and not torch._C._cuda_isHistoryEnabled():
            torch.cuda.memory._record_memory_history("state", context="state", stacks="python")
            self.recording = True
        torch._C._cuda_attach_out_of_memory_observer(observer)

    def detach(self):
        import torch

        for handle in self.handles:
            handle.remove()
        if self.recording:
            torch.cuda.memory._record_memory_history(None)

    @told
    def created(self, optimizer):
        self.optimizers.add(optimizer)
        self.asked += 1
        if self.asked > OPTIMIZERS:
            return
        trained = self.trained()
        for root in memtune_parts.find_roots():
            parameters = list(root.parameters())
            if len(self.watched) < MODELS and root not in self.watched and \
                    any(each.requires_grad for each in parameters) and \
                    not any(id(each) in trained for each in parameters):
                self.watched.add(root)
                hook = memtune_parts.Hook(self.runs_untrained)
                self.handles.append(root.register_forward_pre_hook(hook, with_kwargs=True))

    @told
    def runs_untrained(self, module, arguments, named):
        """If no gradient flows through it to a model that is trained, as it does through a perceptual loss."""
        import torch

        if torch.is_grad_enabled() and not any(each.requires_grad for each in tensors_in([arguments, named], NESTED)):
            self.ran.add(module)

    def begin_forward(self):
        """The model begins to run, for the first time since the last backward."""
        self.before = allocated_now()

    def begin_run(self, size):
        """A run without gradients. One of a single position for each row is of a generation, whose cache grows."""
        rows, _, positions = size
        if rows != positions or rows == 0:
            self.runs.append(allocated_now())
            del self.runs[:-STEPS]

    def begin_backward(self):
        batches, forwards = self.training.batches, self.training.forwards
        self.largest = max(self.largest, self.latest, key=amount)
        self.latest = batches.last if batches and any(batches.last) else forwards.last
        self.amount, self.runs = max(self.amount, amount(self.latest)), []

    def end_step(self, allocated):
        self.held.append(allocated)
        self.amounts.append(self.amount)
        self.amount = 0
        del self.held[:-STEPS], self.amounts[:-STEPS]

    def failed(self, device, requested, limit, free):
        """The observer. `limit`: bytes that PyTorch may take of the device."""
        if self.training.over:
            return
        record = self.described(device, requested, limit, free)
        if self.written < WRITTEN:
            self.written += 1
            self.training.write(**record)
        else:
            self.waiting = record

    def flush(self):
        """When the script ends: the failure that may have ended it."""
        record, self.waiting = self.waiting, None
        if record is not None:
            self.training.write(**record)

    # --- the record

    def described(self, device, requested, limit, free):
        import time

        import torch

        stats = torch.cuda.memory_stats(device)
        reserved = stats.get("reserved_bytes.all.current", 0)
        batch, largest = self.batches()
        record = dict(record="oom", time_s=time.time(), device=device, requested=min(requested, MOST), limit=limit,
                      free=free, total=torch.cuda.get_device_properties(device).total_memory,
                      allocated=stats.get("allocated_bytes.all.current", 0),
                      reserved=reserved, others=self.of_others(device, reserved), phase=self.phase(),
                      step=self.training.step + 1,
                      evaluating=self.training.forwards.is_evaluating(),
                      expandable=expands(), stacks=torch._C._cuda_isHistoryEnabled(), batch=batch, largest=largest,
                      held=self.held, amounts=self.amounts, held_runs=self.runs,
                      start=self.before,
                      runs=self.training.forwards.unfollowed, usual_runs=self.training.forwards.usual,
                      trainer=memtune_process.trainer(), where=described_place(place_of(running_frames()), requested, 1))
        try:
            kinds, models, known = self.kinds(device)
            rest, lines, checkpointed = lines_of(device, known)
            record.update(kinds, models=models, rest=rest, lines=lines, checkpointed=checkpointed)
            compiled = any(map(memtune_parts.is_compiled, memtune_parts.find_roots()))
            if record["phase"] in ("update", "other") and not compiled:
                record["start"] = record["allocated"]  # no activations are there; a compiled model's may be
        except Exception as error:  # the figures above are worth a record
            self.training.note("who holds the memory is not known: %s: %s" % (type(error).__name__, error))
        return record

    def of_others(self, device, reserved):
        """Bytes of other processes; None: the driver does not tell."""
        import torch

        try:
            return self.training.device_memory.of_others(torch.cuda._get_nvml_device_index(device), reserved)
        except Exception:  # no NVML, or a device without a number in it
            return None

    def phase(self):
        import torch

        training = self.training
        if training.depth > 0:
            return "backward"
        if training.losses_before_update is not None:
            return "update"
        frames = running_frames()
        # A reentrant checkpoint and a function of autograd, as a compiled model is, run without gradients inside.
        in_function = is_in_function(frames) and training.forwards.ran_with_gradients is not False
        within = in_function or is_checkpointed(frames)
        if not torch.is_grad_enabled() and not within:
            return "no_gradients"
        runs = any(frame["name"] == "_call_impl" for frame in frames)
        return "forward" if runs or training.forwards.given is not None else "other"

    def batches(self):
        """Rows, tokens and positions: of the batch in use, and of the largest one before it."""
        training = self.training
        if training.depth > 0 or training.losses_before_update is not None:
            return self.latest, self.largest
        waiting = training.batches.waiting if training.batches else ()
        current = waiting[0] if waiting and any(waiting[0]) else training.forwards.given or (0, 0, 0)
        return current, max(self.largest, self.latest, key=amount)

    def trained(self):
        return {id(each) for optimizer in list(self.optimizers) for group in optimizer.param_groups
                for each in group["params"]}

    def kinds(self, device):
        """Bytes of each kind, the models, and the addresses of all of these storages."""
        roots = memtune_parts.find_roots()
        stepped = [each for optimizer in list(self.optimizers) for group in optimizer.param_groups
                   for each in group["params"]]
        ids = self.trained()
        seen, models = set(), []
        for root in roots:
            parameters = list(root.parameters())
            size = new_bytes(parameters, device, seen)
            if size > 0:
                models.append(dict(name=type(root).__name__[:TEXT], bytes=size,
                                   trained=any(id(each) in ids for each in parameters),
                                   with_gradients=root in self.ran))
        found = {"parameters": sum(each["bytes"] for each in models) + new_bytes(stepped, device, seen)}
        trained = [each for root in roots for each in root.parameters()] + stepped
        found["gradients"] = new_bytes([each.grad for each in trained if each.grad is not None], device, seen)
        found["states"] = new_bytes([dict(optimizer.state) for optimizer in list(self.optimizers)], device, seen)
        found["buffers"] = new_bytes([each for root in roots for each in root.buffers()], device, seen)
        models.sort(key=lambda each: (-each["bytes"], not each["trained"]))
        return found, models[:MODELS], seen


def amount(batch):
    """Of a batch: positions, or rows where there are none."""
    rows, _, positions = batch
    return positions or rows


def allocated_now():
    import torch

    return torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0


def pinned_memory():
    """Of an allocation that the driver refused: pinned bytes of the host, and free ones of the device."""
    import torch

    try:
        stats = torch.cuda.host_memory_stats()
        return dict(pinned=stats.get("allocated_bytes.current", 0), free=torch.cuda.mem_get_info()[0])
    except Exception:  # PyTorch before 2.6, or a device that takes no more calls
        return {}


def expands():
    settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF") or ""
    return "expandable_segments:true" in settings.lower()


# --- storages


def is_on(tensor, device):
    return tensor.device.type == "cuda" and tensor.device.index == device


def new_bytes(values, device, seen):
    """Of the storages that are not in `seen`, to which they are added."""
    size = 0
    for tensor in tensors_in(values, NESTED):
        try:
            storage = tensor.untyped_storage()
            address, count = storage.data_ptr(), storage.nbytes()
        except Exception:  # a tensor without memory
            continue
        if count > 0 and is_on(tensor, device) and address not in seen:
            seen.add(address)
            size += count
    return size


def tensors_in(value, levels):
    """The tensors in lists and mappings. Those that a tensor is made of, as a DTensor, stand for it."""
    import torch

    if isinstance(value, torch.Tensor):
        if not hasattr(value, "__tensor_flatten__"):
            yield value
            return
        value = [getattr(value, name) for name in value.__tensor_flatten__()[0]]
    elif isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and levels > 0:
        for each in value:
            yield from tensors_in(each, levels - 1)


# --- lines of the source


def lines_of(device, known):
    """Bytes of live blocks whose address is not known, the lines that allocated most of them, and whether parts of the
    model are checkpointed."""
    import torch

    try:
        segments = torch.cuda.memory_snapshot(include_traces=False)
    except TypeError:  # PyTorch before 2.11
        segments = torch.cuda.memory_snapshot()
    places, rest, checkpointed = {}, 0, False
    for segment in segments:
        for block in segment["blocks"] if segment["device"] == device else ():
            if not block["state"].startswith("active") or block["address"] in known:
                continue
            frames = block.get("frames") or ()
            checkpointed = checkpointed or is_checkpointed(frames)
            sums = places.setdefault(place_of(frames), [0, 0])
            sums[0] += block["size"]
            sums[1] += 1
            rest += block["size"]
    largest = sorted(places.items(), key=lambda each: -each[1][0])[:LINES]
    return rest, [described_place(place, *sums) for place, sums in largest], checkpointed


def place_of(frames):
    """File, line and function of the innermost frame that is not PyTorch's, and the innermost function of PyTorch's.
    Without any: backward, whose thread runs no Python."""
    inner = ""
    for frame in frames:
        if is_own(frame["filename"]):
            return frame["filename"], frame["line"], frame["name"], inner
        if frame["filename"].startswith(folder_of_torch()):
            inner = inner or frame["name"]
    return "", 0, "", inner


def is_checkpointed(frames):
    return any(frame["filename"].endswith("/torch/utils/checkpoint.py") for frame in frames)


def is_in_function(frames):
    return any(frame["filename"].endswith("/torch/autograd/function.py") for frame in frames)


def folder_of_torch():
    import torch

    return os.path.dirname(torch.__file__) + os.sep


def is_own(file):
    standard = file.startswith(os.path.dirname(os.__file__) + os.sep) and "-packages" + os.sep not in file
    here = os.path.dirname(os.path.abspath(__file__)) + os.sep
    return bool(file) and not standard and not file.startswith(("<", folder_of_torch(), here))


def running_frames():
    """Of this thread, the innermost first."""
    frame, frames = sys._getframe(1), []
    while frame is not None:
        frames.append(dict(filename=frame.f_code.co_filename, line=frame.f_lineno, name=frame.f_code.co_name))
        frame = frame.f_back
    return frames


def described_place(place, size, count):
    import linecache

    file, line, function, inner = place
    text = linecache.getline(file, line).strip() if file else ""
    return dict(file=file[-TEXT:], line=line, function=function[:TEXT], inner=inner[:TEXT], text=text[:TEXT],
                bytes=size, count=count)
