"""Finds which part of the model runs in the traced steps: its blocks, what is before them, and the head after them.

Hooks of modules and tensors report it. They exist for these steps only and return nothing, so they change no tensor and
no graph. A compiled model gets no hooks, because they would make it compile again.
"""

import functools
import sys

MOST = 50000  # regions


def harmless(words):
    """Decorates methods of an object with `over` and `training`: an error ends it, with a note. Its hooks are removed
    later, because the method may be one of them."""

    def guard(method):
        @functools.wraps(method)
        def call(self, *arguments):
            try:
                if not self.over:
                    return method(self, *arguments)
            except Exception as error:
                self.over = True
                self.training.note("%s: %s: %s" % (words, type(error).__name__, error))
            return None

        return call

    return guard


told = harmless("the timeline has not all parts of the model")


class Hook:
    """Does nothing in a copy of the model, in a saved file of it, and in a compiled graph."""

    def __init__(self, tell, *block):
        self.tell, self.block = tell, block

    def __call__(self, *arguments):
        import torch

        if not torch.compiler.is_compiling():
            self.tell(*self.block, *arguments)

    def __reduce__(self):
        return functools.partial, (sys.audit, "a hook of memtune's")


class Parts:
    """Adds the parts of the model to a timeline."""

    def __init__(self, timeline):
        self.timeline, self.training = timeline, timeline.training
        self.over = False
        self.names, self.handles = [], []  # of blocks; of hooks
        self.ran, self.ends = [], (None, None)  # blocks of this forward; the first and the last one of an earlier forward
        self.part = None  # the running one: kind, pass, block and its begin
        self.watch_blocks()

    def stop(self):
        self.over = True
        handles, self.handles = self.handles, []
        for handle in handles:
            handle.remove()

    @told
    def watch_blocks(self):
        models = find_models(stepped_by(self.training.first()))
        if any(is_compiled(root) for root, _ in models):
            self.training.note("the model is compiled: its timeline has no parts of it, as hooks would compile it "
                               "again")
            return
        blocks = named_blocks(models)
        if not blocks:
            self.training.note("the model has no list of repeated modules: its timeline has no parts of it")
            return
        self.names = [name for name, _ in blocks]
        for root, _ in models:
            self.handles.append(root.register_forward_pre_hook(Hook(self.enter_model)))
        for block, (_, module) in enumerate(blocks):
            self.handles.append(module.register_forward_pre_hook(Hook(self.enter, block), with_kwargs=True))
            # Also if it ends early: recomputation stops after the last activation that is needed.
            self.handles.append(module.register_forward_hook(Hook(self.leave, block), always_call=True))

    @told
    def go_to(self, part, at=None):
        """Ends the running part and begins another."""
        if part is None and self.part is None:
            return
        at = at or self.timeline.moment()
        if self.part is not None:
            if len(self.timeline.regions) >= MOST:
                raise RuntimeError("they are more than %d" % MOST)
            self.timeline.add(*self.part, at)
        self.part = part and (*part, at)

    def end_forward(self):
        if self.ran:
            self.ends = self.ran[0], self.ran[-1]
        self.ran = []

    @told
    def begin_backward(self, at):
        self.end_forward()
        self.go_to(("head", "backward", -1) if self.names else None, at)

    @told
    def enter_model(self, module, arguments):
        if self.training.depth == 0:
            self.end_forward()
            self.go_to(("before_blocks", "forward", -1))

    @told
    def enter(self, block, module, arguments, named):
        self.go_to(("block", "recompute" if self.training.depth > 0 else "forward", block))
        if self.training.depth == 0:
            self.ran.append(block)
        if block == self.ends[0]:
            self.watch_tensor((arguments, tuple(named.values())), Hook(self.leave_blocks, block))

    @told
    def leave(self, block, module, arguments, result):
        """A block lasts until the next one begins, because each moment that is taken costs host time."""
        if self.training.depth > 0:
            self.go_to(("block", "backward", block))
        elif block == self.ends[1]:
            self.go_to(("head", "forward", -1))
        self.watch_tensor(result, Hook(self.enter_backward, block))

    @told
    def enter_backward(self, block, gradient):
        self.go_to(("block", "backward", block))

    @told
    def leave_blocks(self, block, gradient):
        if self.part is not None and self.part[:3] == ("block", "backward", block):
            self.go_to(("before_blocks", "backward", -1))

    def watch_tensor(self, values, tell):
        tensor = first_differentiable(values)
        if tensor is not None:
            self.handles.append(tensor.register_hook(tell))


def first_differentiable(values):
    import torch

    if isinstance(values, torch.Tensor):
        return values if values.requires_grad else None
    if isinstance(values, dict):
        values = tuple(values.values())
    if isinstance(values, (tuple, list)):
        return next((found for found in map(first_differentiable, values) if found is not None), None)
    return None


# --- the model: found among all Python objects, because no hook gets it


def children_of(module):
    return {name: child for name, child in (module.__dict__.get("_modules") or {}).items() if child is not None}


def find_roots():
    """Modules that no other module contains."""
    import gc

    import torch

    modules = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
    inner = {id(child) for module in modules for child in children_of(module).values()}
    return [module for module in modules if id(module) not in inner]


def trains(module):
    try:
        return any(parameter.requires_grad for parameter in module.parameters())
    except Exception:  # under construction
        return False


def is_list(module):
    import torch

    return isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict))


def entries_of(module, path):
    """The paths and modules of a list that are more than a single layer."""
    return [(path + (name,), child) for name, child in children_of(module).items() if children_of(child)]


def repeats(entries):
    classes = [type(unwrapped(module)) for _, module in entries]
    return max((classes.count(each) for each in classes), default=0)


FEW = 5  # a list of so few modules may be one of stages, whose own lists have the blocks


def blocks_of(module, seen, path=(), stages=True):
    """The repeated modules of every list, each once, with their paths: those of the outermost lists, or of the lists in
    them if these are stages. Experts of a layer are no blocks: each runs for a part of the tokens."""
    if id(module) in seen or (path and path[-1].endswith("experts")):
        return []
    seen.add(id(module))
    entries = entries_of(module, path)
    if not is_list(module) or repeats(entries) < 2:
        return [block for name, child in children_of(module).items()
                for block in blocks_of(child, seen, path + (name,), stages)]
    entries = [block for path, child in entries for block in unfolded(child, path)]
    if not stages or len(entries) > FEW:
        return entries
    inner = [[block for block in blocks_of(child, seen, path, False) if not is_list(block[1])] for path, child in entries]
    if sum(map(len, inner)) <= len(entries):
        return entries
    return [block for entry, blocks in zip(entries, inner) for block in blocks or [entry]]


def unfolded(module, path):
    """The blocks of a list in a list. A list of single layers is one itself."""
    if not is_list(module) or not entries_of(module, path):
        return [(path, module)]
    return [block for path, child in entries_of(module, path) for block in unfolded(child, path)]


def stepped_by(optimizer):
    """id() of the parameters that it updates. If it updates copies, as in another precision, no model has them."""
    return {id(each) for group in getattr(optimizer, "param_groups", ()) for each in group["params"]}


def find_models(stepped):
    """The models, each with the paths and modules of its blocks: those whose parameters are updated. If it is not known
    which these are, the one with the most blocks, which a copy that never runs may have too."""
    models = [(root, blocks_of(root, set())) for root in find_roots() if trains(root)]
    trained = [model for model in models if any(id(each) in stepped for each in model[0].parameters())]
    if trained:
        return trained
    return sorted(models, key=lambda model: (len(model[1]), sum(each.numel() for each in model[0].parameters())))[-1:]


def named_blocks(models):
    """Blocks with their names. With several models these begin with the model's class."""
    models = [(root, blocks) for root, blocks in models if blocks]
    return [((type(root).__name__ + "." if len(models) > 1 else "") + name_of(root, path), unwrapped(module))
            for root, blocks in models for path, module in blocks]


WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module", "_original_module")


def unwrapped(module):
    """The innermost module, which a checkpoint wrapper calls again to recompute."""
    inner = [child for name, child in children_of(module).items() if name in WRAPPED]
    return unwrapped(inner[0]) if inner else module


def name_of(root, path):
    """Name without the wrappers of the model and its blocks."""
    if path[0] == "module" and len(children_of(root)) == 1:
        path = path[1:]
    return ".".join(each for each in path if each not in WRAPPED)


def is_compiled(root):
    dynamo = sys.modules.get("torch._dynamo.utils")
    # A graph without breaks counts no frames.
    counts = dynamo.counters if dynamo is not None else {}
    if counts.get("frames", {}).get("total", 0) > 0 or counts.get("stats", {}).get("unique_graphs", 0) > 0:
        return True
    return any(type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None
               for module in root.modules())
