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
                    method(self, *arguments)
            except Exception as error:
                self.over = True
                self.training.note("%s: %s: %s" % (words, type(error).__name__, error))

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
        self.part = None  # the running one: kind, pass, block and its begin
        self.watch_blocks()

    def stop(self):
        self.over = True
        handles, self.handles = self.handles, []
        for handle in handles:
            handle.remove()

    @told
    def watch_blocks(self):
        root, blocks = find_blocks(stepped_by(self.training.first()))
        if not blocks:
            return
        if is_compiled(root):
            self.training.note("the model is compiled: its timeline has no parts of it, as hooks would compile it "
                               "again")
            return
        self.names = [name for name, _ in blocks]
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

    @told
    def begin_backward(self, at):
        self.go_to(("head", "backward", -1) if self.names else None, at)

    @told
    def enter_model(self, module, arguments):
        if self.training.depth == 0:
            self.go_to(("before_blocks", "forward", -1))

    @told
    def enter(self, block, module, arguments, named):
        self.go_to(("block", "recompute" if self.training.depth > 0 else "forward", block))
        if block == 0:
            self.watch_tensor((arguments, tuple(named.values())), Hook(self.leave_blocks))

    @told
    def leave(self, block, module, arguments, result):
        """A block lasts until the next one begins, because each moment that is taken costs host time."""
        if self.training.depth > 0:
            self.go_to(("block", "backward", block))
        elif block == len(self.names) - 1:
            self.go_to(("head", "forward", -1))
        self.watch_tensor(result, Hook(self.enter_backward, block))

    @told
    def enter_backward(self, block, gradient):
        self.go_to(("block", "backward", block))

    @told
    def leave_blocks(self, gradient):
        if self.part is not None and self.part[:3] == ("block", "backward", 0):
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


def containers_of(module, path=()):
    """The outermost containers that repeat a class, each with its path."""
    import torch

    kinds = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
    if isinstance(module, kinds) and repeats(module) > 1:
        return [(path, module)] if trains(module) else []
    return [found for name, child in children_of(module).items() for found in containers_of(child, path + (name,))]


def classes_of(module):
    return [type(child) for child in children_of(module).values()]


def repeats(module):
    classes = classes_of(module)
    return max((classes.count(each) for each in set(classes)), default=0)


def stepped_by(optimizer):
    """id() of the parameters that it updates. If it updates copies, as in another precision, no model has them."""
    return {id(each) for group in getattr(optimizer, "param_groups", ()) for each in group["params"]}


def find_blocks(stepped):
    """The model, and its blocks with their names: the children of the containers that repeat the most frequent class.
    A model whose parameters are updated comes before a copy of it, which may never run."""
    best = None
    for root in find_roots():
        found = containers_of(root)
        for _, container in found:
            size = (any(id(each) in stepped for each in container.parameters()), repeats(container),
                    sum(each.numel() for each in container.parameters()))
            if best is None or size > best[0]:
                best = (size, root, found, max(classes_of(container), key=classes_of(container).count))
    if best is None:
        return None, []
    _, root, found, repeated = best
    return root, [(name_of(root, path + (name,)), unwrapped(child)) for path, container in found
                  if repeated in classes_of(container) for name, child in children_of(container).items()]


WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


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
    if dynamo is not None and dynamo.counters.get("frames", {}).get("total", 0) > 0:
        return True
    return any(type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None
               for module in root.modules())
