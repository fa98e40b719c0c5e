"""Finds who holds the memory of a step: by kind, by module, by line of the source and by call path.

On CUDA the allocator records the events of the last traced step in a ring, with Python stacks. One snapshot after the
step has the blocks that are live then. The events, read backwards from there, give the blocks of every earlier moment.
On a CPU no allocator tells: the tensors that autograd saves stand for the activations.

MEMTUNE_MEMORY_HISTORY  "0": events have no stacks, so there are no lines and no call paths
"""

import bisect
import functools
import os
import time

import memtune_oom
import memtune_parts

EVENTS = 100000  # of the ring, two for each allocation; one takes about 100 bytes
ROWS = 1500  # of the curve
LINES = MODULES = 20  # the largest
PATHS = 2000  # the largest; the others of a kind are one
FRAME = 200  # characters
KINDS = ("parameters", "gradients", "optimizer", "buffers", "inputs", "activations", "logits", "attention",
         "temporaries", "workspace", "rounding", "other")
LASTING = KINDS[:4]  # known by their addresses
SAVED = ("activations", "logits", "attention")
SKIPPED = ["free_completed", "segment_alloc", "segment_free", "snapshot"]
WORKSPACES = {1 << 20, 8519680, 33554432}  # bytes of cuBLASLt and cuBLAS: PyTorch's defaults

HEADS = ("num_heads", "n_head", "n_heads", "num_attention_heads")  # attributes of attention modules
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

told = memtune_parts.harmless("who holds the memory of a step is not known")


class Block:
    """Memory from its allocation to its release: indices of events. -1 and None are before and after the step."""

    __slots__ = ("address", "size", "real", "frames", "born", "died", "kind", "module")

    def __init__(self, address, size, real, frames, died):
        self.address, self.size, self.real, self.frames = address, size, real, frames
        self.born, self.died, self.kind, self.module = -1, died, "other", ""

    def is_live(self, moment):
        """After event number `moment`."""
        return self.born <= moment and (self.died is None or self.died > moment)


class StepMemory:
    """Of the last traced step. `begin` and `end` enclose it; `write` is called once the device is idle."""

    def __init__(self, training, timeline, cuda):
        self.training, self.timeline, self.cuda = training, timeline, cuda
        self.over = False
        self.modules, self.roots = [], []  # paths and modules, first those of the trained models; id() of their roots
        self.handles, self.marks = [], []  # hooks; moments at which a module begins, or ends: its number, or ~ of it
        self.inside = []  # numbers of the modules that run
        self.given = []  # moments and addresses of what the model was given
        self.saved = None
        self.scores = {}  # by path of a module
        self.find_modules()

    @told
    def find_modules(self):
        models = memtune_parts.find_models(memtune_parts.stepped_by(self.training.first()))
        for root, _ in models:
            prefix = (type(root).__name__,) if len(models) > 1 else ()
            self.roots.append(id(root))
            for name, module in root.named_modules():
                path = tuple(each for each in name.split(".") if each and each not in memtune_parts.WRAPPED)
                if path[:1] == ("module",) and len(memtune_parts.children_of(root)) == 1:
                    path = path[1:]
                self.modules.append((".".join(prefix + path), module))
        self.trained = len(self.modules)
        listed = {id(module) for _, module in self.modules}
        for root in memtune_parts.find_roots():  # a loss, a frozen encoder
            if id(root) not in self.roots and can_have_hooks(root):
                for name, module in root.named_modules():
                    if id(module) not in listed:
                        listed.add(id(module))
                        self.modules.append((".".join([type(root).__name__] + name.split(".") * bool(name)), module))

    # --- the step

    @told
    def begin(self):
        self.began_ns = time.perf_counter_ns()
        self.compiled = any(memtune_parts.is_compiled(each) for _, each in self.modules if id(each) in self.roots)
        self.watch_modules()
        if self.cuda:
            self.begin_events()
        elif not self.compiled:  # hooks would compile the model again
            self.saved = SavedTensors(self)

    def watch_modules(self):
        if self.compiled:
            return
        for number, (_, module) in enumerate(self.modules):
            enter, leave = memtune_parts.Hook(self.enter, number), memtune_parts.Hook(self.leave, number)
            self.handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            self.handles.append(module.register_forward_hook(leave, always_call=True))

    @told
    def enter(self, number, module, arguments, named):
        self.marks.append((time.perf_counter_ns(), number))
        go_to(self.inside, number)
        if id(module) in self.roots and self.training.depth == 0:
            values = [arguments, named]
            self.given.append((time.perf_counter_ns(), storages_of(values, self.is_here)))

    @told
    def leave(self, number, module, arguments, result):
        self.marks.append((time.perf_counter_ns(), ~number))
        go_to(self.inside, ~number)

    def name_of(self, running):
        return (self.modules[running[-1]][0] or "(model)") if running else ""

    def is_here(self, tensor):
        return memtune_oom.is_on(tensor, self.device) if self.cuda else tensor.device.type == "cpu"

    def begin_events(self):
        import torch

        self.device = torch.cuda.current_device()
        stepped = [each for optimizer in list(self.training.oom.optimizers) for group in optimizer.param_groups
                   for each in group["params"]]
        self.old_gradients = storages_of([each.grad for each in stepped if each.grad is not None], self.is_here)
        self.stacks = os.environ.get("MEMTUNE_MEMORY_HISTORY") != "0"
        self.own = self.training.oom.recording or not torch._C._cuda_isHistoryEnabled()
        if self.own:
            record_history(context="alloc" if self.stacks else None)
        torch.cuda.reset_peak_memory_stats()
        self.before = torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)
        self.clocks = time.time_ns(), time.perf_counter_ns()

    @told
    def end(self):
        """Before anything else is allocated."""
        if self.cuda:
            import torch

            self.measured = torch.cuda.memory_stats().get("allocated_bytes.all.peak", 0)
            self.snapshot = torch.cuda.memory._snapshot()
            if self.own:
                restore_history(self.stacks)
        elif self.saved is not None:
            self.saved.stop()
        self.known, self.paths = self.find_known()

    def stop(self):
        handles, self.handles = self.handles, []
        for handle in handles:
            handle.remove()
        if self.saved is not None:
            self.saved.stop()

    def find_known(self):
        """Bytes by address of each kind, and the module's path of each of these addresses."""
        known, paths = {kind: {} for kind in LASTING}, {}

        def add(kind, values, path):
            for address, size in storages_of(values, self.is_here).items():
                if address not in paths:
                    known[kind][address], paths[address] = size, path

        owners, roots = {}, memtune_parts.find_roots()  # parameters and their modules' paths by id()
        for path, module in self.modules + [(type(root).__name__, each) for root in roots for each in root.modules()]:
            for each in (module.__dict__.get("_parameters") or {}).values():
                if each is not None:
                    owners.setdefault(id(each), (each, path))
        optimizers = list(self.training.oom.optimizers)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for each in group["params"]:
                    owners.setdefault(id(each), (each, ""))
        for each, path in owners.values():
            add("parameters", each, path)
        for each, path in owners.values():
            add("gradients", each.grad, path)
        for optimizer in optimizers:
            for each, state in optimizer.state.items():
                add("optimizer", dict(state) if hasattr(state, "keys") else state, owners.get(id(each), (None, ""))[1])
        for path, module in self.modules + [(type(root).__name__, each) for root in roots for each in root.modules()]:
            add("buffers", list((module.__dict__.get("_buffers") or {}).values()), path)
        return known, paths

    # --- the record

    @told
    def write(self):
        self.phases = self.moments_of("phase")
        if self.cuda:
            record = self.of_events()
        elif self.saved is not None:
            record = self.of_saved()
        else:
            return
        self.training.write(record="memory", step=self.training.step, **record)

    def regions(self):
        """Of the step."""
        return [region for region in self.timeline.regions if region[3][0] * 1e9 >= self.began_ns]

    def moments_of(self, kind):
        """Host times in nanoseconds, pass and block."""
        return sorted((round(begin[0] * 1e9), round(end[0] * 1e9), running, block)
                      for what, running, block, begin, end in self.regions() if what == kind)

    def of_events(self):
        self.read_events()
        self.name_modules()
        self.find_kinds()
        peak, curve = self.follow()
        sums = [self.sums_at(moment) for moment in (-1, peak, len(self.events) - 1)]
        live = [block for block in self.blocks if block.is_live(peak)]
        totals = (self.before if self.complete else sum(sums[0].values()), max(self.top, sum(sums[1].values())),
                  sum(block.real for block in self.blocks if block.died is None))
        for total, by_kind in zip(totals, sums):
            by_kind["rounding"] += max(0, total - sum(by_kind.values()))
        phase = self.phase_at(self.times[peak]) if peak >= 0 else ("forward", 0)
        return dict(device=self.device, measured=self.measured, saved=False, complete=self.complete, stacks=self.stacks,
                    phase={"optimizer": "update"}.get(phase[0], phase[0]), peak_ns=self.to_device(peak),
                    owners=[dict(kind=kind, before=sums[0][kind], peak=sums[1][kind], end=sums[2][kind])
                            for kind in KINDS if any(each[kind] for each in sums)],
                    curve=curve, **self.holders(live))

    def holders(self, live):
        """By line, module and call path, of the blocks at the peak."""
        lines = largest_lines([block for block in live if block.kind not in LASTING]) if self.stacks else []
        return dict(lines=lines, modules=largest_modules(live), file=self.write_paths(live) if self.stacks else "")

    def write_paths(self, live):
        name = "%d.stacks" % self.training.pid
        with open(os.path.join(self.training.folder, name), "w", encoding="utf-8") as file:
            for path, size in call_paths(live):
                file.write("%s %d\n" % (path, size))
        return name

    def read_events(self):
        """The blocks of the step, from the live ones at its end backwards."""
        unix, host = self.clocks
        traces = self.snapshot.get("device_traces") or []
        trace = traces[self.device] if self.device < len(traces) else []
        # A script's own history has older events.
        events = [each for each in trace if self.own or each["time_us"] * 1000 >= unix]
        self.complete = len(trace) < EVENTS if self.own else len(events) < len(trace) or not trace
        self.events = [each for each in events if each["action"] in ("alloc", "free_requested")]
        self.times = [each["time_us"] * 1000 - unix + host for each in self.events]
        self.blocks, live = [], {}

        def add(*arguments):
            self.blocks.append(Block(*arguments))
            live[self.blocks[-1].address] = self.blocks[-1]

        for segment in self.snapshot["segments"]:
            for each in segment["blocks"] if segment["device"] == self.device else ():
                if each["state"] == "active_allocated":
                    size = each.get("requested_size", each["size"])
                    add(each["address"], size, each["size"], each.get("frames") or (), None)
        for i in range(len(self.events) - 1, -1, -1):
            event = self.events[i]
            address, size, frames = event["addr"], event["size"], event.get("frames") or ()
            if event["action"] == "alloc":
                block = live.pop(address, None)
                if block is not None:
                    block.born, block.frames = i, block.frames or frames
            else:
                add(address, size, -(-size // 512) * 512, frames, i)

    def name_modules(self):
        """The innermost module that runs as a block is allocated. In backward, the part of the model."""
        born = sorted((block for block in self.blocks if block.born >= 0), key=lambda block: block.born)
        running, i = [], 0
        parts = self.moments_of("block")
        names = self.timeline.parts.names
        for block in born:
            at = self.times[block.born]
            while i < len(self.marks) and self.marks[i][0] <= at:
                go_to(running, self.marks[i][1])
                i += 1
            if running:
                block.module = self.name_of(running)
            else:
                part = covering(parts, at)
                block.module = names[part[3]] if part is not None and part[3] >= 0 else ""
        for block in self.blocks:
            if block.died is None and block.address in self.paths:
                block.module = self.paths[block.address]

    def phase_at(self, at):
        """Its pass, and the end of that."""
        phase = covering(self.phases, at)
        return (phase[2], phase[1]) if phase is not None else ("other", at)

    def find_kinds(self):
        heads, head, held = self.moments_of("head"), self.last_module(), held_addresses(self.is_here)
        for block in self.blocks:
            lasting = next((kind for kind in LASTING if block.died is None and block.address in self.known[kind]), None)
            if lasting is None and block.born < 0 and block.address in self.old_gradients:
                lasting = "gradients"
            if lasting is not None:
                block.kind = lasting
            elif self.was_given(block):
                block.kind = "inputs"
            elif is_workspace(block) and block.address not in held:
                block.kind = "workspace"
            else:
                block.kind = self.kind_of_step(block, head, heads) if block.born >= 0 else "other"

    def last_module(self):
        """The path of the one that ran last before the first backward: the head of most models."""
        end = next((begin for begin, _, running, _ in self.phases if running == "backward"), float("inf"))
        return next((self.modules[number][0] for at, number in reversed(self.marks)
                     if at < end and 0 <= number < self.trained), None)

    def was_given(self, block):
        begin = self.times[block.born] if block.born >= 0 else -1
        end = self.times[block.died] if block.died is not None else float("inf")
        return any(block.address in storages and begin <= at < end for at, storages in self.given)

    def kind_of_step(self, block, head, heads):
        """Of a block that was allocated in the step and is none of the lasting ones."""
        at = self.times[block.born]
        phase, end = self.phase_at(at)
        if phase == "backward":
            if not any(frame["name"] == "_call_impl" for frame in block.frames):  # no recomputation
                part = covering(heads, at)
                return "logits" if part is not None and part[2] == "backward" else "temporaries"
        elif phase != "forward" or (block.died is not None and self.times[block.died] <= end):
            return "temporaries"
        return "logits" if head is not None and block.module == head else self.kind_of_saved(block)

    def kind_of_saved(self, block):
        names = names_in_module(block.frames)
        if any("loss" in name or "cross_entropy" in name for name in names):
            return "logits"
        scores = any("eager_attention" in name for name in names) or block.size in self.scores_of(block.module)
        return "attention" if scores else "activations"

    def scores_of(self, path):
        """Bytes that the scores of this module may have, if it is an attention with tokens as input."""
        if path not in self.scores:
            module = dict(self.modules).get(path)
            rows, _, positions = self.training.forwards.last
            heads = next((getattr(module, name) for name in HEADS if isinstance(getattr(module, name, None), int)), 0)
            length = positions // rows if rows else 0
            width = max((each.in_features for each in (module.modules() if module is not None else ())
                         if hasattr(each, "in_features")), default=0)
            count = rows * heads * length * length if heads * length != width else 0  # else hidden states are as large
            self.scores[path] = {count * each for each in (2, 4)} if count else set()
        return self.scores[path]

    # --- the curve

    def follow(self):
        """The event after which most is allocated, and the curve: device times, bytes, and those of each kind."""
        changes = [[] for _ in self.events]
        held, total = dict.fromkeys(KINDS, 0), 0
        for block in self.blocks:
            if block.born < 0:
                held[block.kind] += block.size
                total += block.real
            else:
                changes[block.born].append((block, 1))
            if block.died is not None:
                changes[block.died].append((block, -1))
        begin, passing, rows = total, 0, []  # passing: bytes whose exact size is not known
        for i, change in enumerate(changes):
            for block, sign in change:
                held[block.kind] += sign * block.size
                total += sign * block.real
                passing += sign * block.real if block.died is not None else 0
            rows.append((i, total, passing, tuple(held.values())))
        if not rows:
            self.top = begin
            return -1, []
        highest = max(rows, key=lambda row: row[1])
        # The allocator may give more than it was asked for: it does not split off what is below 1 MiB.
        more = max(0, self.measured - highest[1]) if self.complete else 0
        share = more / max(1, highest[2])
        self.top = highest[1] + more
        self.measure_clock()
        curve, width = [], max(1, -(-len(rows) // ROWS))
        for start in range(0, len(rows), width):
            row = max(rows[start:start + width], key=lambda row: row[1])
            total = self.top if row[0] == highest[0] else row[1] + round(max(0, row[2]) * share)
            curve.append([self.to_device(row[0]), total, *row[3]])
        return highest[0], curve

    def measure_clock(self):
        """Pairs of host times and times of the trace: the device runs behind the host."""
        pairs = []
        for _, _, _, *moments in self.regions():
            for moment in moments:
                try:
                    pairs.append((round(moment[0] * 1e9), self.timeline.ns_of(moment)))
                except Exception:  # of another device
                    pass
        self.pairs = []
        for host, device in sorted(pairs):
            if not self.pairs or (host > self.pairs[-1][0] and device >= self.pairs[-1][1]):
                self.pairs.append((host, device))

    def to_device(self, event):
        if event < 0 or not self.pairs:
            return 0
        host, pairs = self.times[event], self.pairs
        i = bisect.bisect_right(pairs, (host, float("inf")))
        if i == 0 or i == len(pairs):
            nearest = pairs[max(0, i - 1)]
            return max(0, nearest[1] + (host - nearest[0] if i == 0 else 0))
        (left, begin), (right, end) = pairs[i - 1], pairs[i]
        return begin + round((end - begin) * (host - left) / (right - left))

    def sums_at(self, moment):
        sums = dict.fromkeys(KINDS, 0)
        for block in self.blocks:
            if block.is_live(moment):
                sums[block.kind] += block.size
        return sums

    # --- without events

    def of_saved(self):
        """Of a CPU: what lasts, and the tensors that autograd saved for the first backward."""
        live = []
        for kind, storages in self.known.items():
            for address, size in storages.items():
                live.append(Block(address, size, size, None, None))  # its stack is not known
                live[-1].kind, live[-1].module = kind, self.paths[address]
        given = {address for _, storages in self.given for address in storages}
        lasts = {address for kind in LASTING if kind != "gradients" for address in self.known[kind]}  # they come later
        for block in self.saved.blocks.values():
            if block.address not in lasts:
                block.kind = "inputs" if block.address in given else self.kind_of_saved(block)
                live.append(block)
        sums, self.stacks = dict.fromkeys(KINDS, 0), True
        for block in live:
            sums[block.kind] += block.size
        lasting = {kind: sums[kind] if kind in LASTING else 0 for kind in KINDS}
        return dict(device=0, measured=0, saved=True, complete=True, stacks=True, phase="forward", peak_ns=0,
                    owners=[dict(kind=kind, before=lasting[kind], peak=sums[kind], end=lasting[kind])
                            for kind in KINDS if sums[kind]], curve=[], **self.holders(live))


class SavedTensors:
    """The storages that autograd saves before the first backward of the step."""

    def __init__(self, memory):
        import torch

        self.memory, self.blocks, self.backwards = memory, {}, memory.training.backwards
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor)
        self.hooks.__enter__()

    def stop(self):
        hooks, self.hooks = self.hooks, None
        if hooks is not None:
            hooks.__exit__(None, None, None)

    def pack(self, tensor):
        if self.memory.training.backwards == self.backwards:
            for address, size in storages_of(tensor, self.memory.is_here).items():
                if address not in self.blocks:
                    frames = [each for each in memtune_oom.running_frames() if not each["filename"].startswith(HERE)]
                    self.blocks[address] = Block(address, size, size, frames, None)
                    self.blocks[address].module = self.memory.name_of(self.memory.inside)
        return tensor


def storages_of(values, is_here):
    """Bytes by address of the tensors in lists and mappings."""
    found = {}
    for tensor in memtune_oom.tensors_in(values, memtune_oom.NESTED):
        try:
            storage = tensor.untyped_storage()
            if storage.nbytes() > 0 and is_here(tensor):
                found[storage.data_ptr()] = storage.nbytes()
        except Exception:  # a tensor without memory
            pass
    return found


def can_have_hooks(root):
    """Neither one of TorchScript, nor one that torch.compile has replaced, nor one under construction."""
    import torch

    try:
        return not any(isinstance(each, torch.jit.ScriptModule) for each in root.modules()) and \
            not memtune_parts.is_compiled(root)
    except Exception:
        return False


def held_addresses(is_here):
    """Of all tensors that Python knows."""
    import gc

    import torch

    return set(storages_of([each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)], is_here))


def go_to(running, number):
    """A module begins, or ends: ~ of its number. An exception may have ended those in it."""
    if number >= 0:
        running.append(number)
    elif ~number in running:
        del running[len(running) - 1 - running[::-1].index(~number):]


def covering(regions, at):
    """The one of a sorted list that a moment is in."""
    i = bisect.bisect_right(regions, (at, float("inf"))) - 1
    return regions[i] if i >= 0 and at < regions[i][1] else None


def is_workspace(block):
    """If no tensor has it. A library keeps its workspace from step to step, or allocates it anew in each."""
    if block.size in WORKSPACES:
        return block.born < 0 or block.died is None
    return block.born < 0 and block.died is None and not block.frames


def names_in_module(frames):
    """Names of functions, in lower case, up to the call of the innermost module: its callers are those of all others."""
    names = []
    for frame in frames:
        if frame["name"] == "_call_impl":
            break
        names.append(frame["name"].lower())
    return names


def record_history(**context):
    import torch

    record = torch.cuda.memory._record_memory_history
    for more in (dict(clear_history=True, skip_actions=SKIPPED), dict(clear_history=True), {}):
        try:
            return record("all", stacks="python", max_entries=EVENTS, **context, **more)
        except (TypeError, RuntimeError):  # an older PyTorch, or one without such actions
            pass
    raise RuntimeError("the allocator records no events")


def restore_history(stacks):
    import torch

    if stacks:
        torch.cuda.memory._record_memory_history("state", context="state", stacks="python")
    else:
        torch.cuda.memory._record_memory_history(None)


# --- sums


def family(path):
    """One name for the modules of all blocks: "layers.*.mlp"."""
    return ".".join("*" if each.isdigit() else each for each in path.split("."))


def largest_lines(blocks):
    sums = {}
    for block in blocks:
        found = sums.setdefault(memtune_oom.place_of(block.frames), [0, 0])
        found[0] += block.size
        found[1] += 1
    largest = sorted(sums.items(), key=lambda each: -each[1][0])[:LINES]
    return [memtune_oom.described_place(place, *found) for place, found in largest]


def largest_modules(blocks):
    sums = {}
    for block in blocks:
        if block.module:
            found = sums.setdefault(family(block.module), [0, 0, set()])
            found[0] += block.size
            found[1] += block.size if block.kind in SAVED else 0
            found[2].add(block.module)
    largest = sorted(sums.items(), key=lambda each: -each[1][0])[:MODULES]
    return [dict(name=name[:FRAME], bytes=size, activations=saved, count=len(paths))
            for name, (size, saved, paths) in largest]


def call_paths(blocks):
    """Collapsed stacks: kind and frames, the outermost first, as those of torch.cuda._memory_viz, with their bytes."""
    sums = {}
    for block in blocks:
        path = block.kind if block.frames is None else block.kind + ";" + stack_text(block.frames)
        sums[path] = sums.get(path, 0) + block.size
    largest = sorted(sums.items(), key=lambda each: (-each[1], each[0]))
    rest = {}
    for path, size in largest[PATHS:]:
        kind = path.split(";")[0]
        rest[kind] = rest.get(kind, 0) + size
    return largest[:PATHS] + [(kind + ";<rest>", size) for kind, size in rest.items()]


def stack_text(frames):
    names = [frame_text(each["filename"], each["line"], each["name"]) for each in reversed(frames)]
    return ";".join(names) or "<non-python>"


@functools.lru_cache(4096)
def frame_text(file, line, function):
    text = "%s:%d:%s" % (file.split("/")[-1], line, function)
    return "".join(each if each.isprintable() and each not in "; " else "_" for each in text[:FRAME])
