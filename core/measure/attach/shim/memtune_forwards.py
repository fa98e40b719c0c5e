"""Watches when the trained model runs: what it is given, how often it runs without gradients, and the time outside of its
passes.

Hooks of a few modules for each optimizer report it: the module with the optimizer's first parameter, and those around
it, from the whole model down to its blocks. The outermost one that the script calls is the model, the others run in it.
The hooks return nothing, so they change no tensor and no graph. A compiled model runs without them.
"""

import sys
from collections.abc import Mapping

import memtune_parts

OPTIMIZERS = 8  # a script may have one for each parameter
INTERVALS = 64  # of a step
PLACES = 64  # of the script
TOKENS = ("input_ids", "tokens", "input")  # names whose integer tensors of shape (rows, length) are tokens
PARTS = 8  # of a list that the model is given, a tensor is looked for in


told = memtune_parts.harmless("what the model is given is not known")


class Forwards:
    def __init__(self, training):
        self.training, self.over = training, False
        self.watched, self.asked, self.handles = [], 0, []
        self.reset()

    def reset(self):
        self.given = None  # rows, tokens and positions since the last backward
        self.last = (0, 0, 0)  # those of the last backward
        self.sizes = []  # those of each backward of the step
        self.without_gradients = 0  # runs in the step
        self.ran_with_gradients = None  # the last run; None: none was seen, as of a compiled model
        self.outermost = None  # id() of the watched module that the script called, while it runs
        self.runs, self.usual = 0, 0  # with gradients: since the last backward; the most before an earlier one
        self.place, self.followed = 0, set()  # that called the last of them; those that a backward followed
        self.unfollowed = 0  # of these runs, those from other places
        self.trains = self.trained = None  # training mode: in the last of them, and in that before the last backward
        self.outside, self.outside_began = [], None  # moments outside of forward, backward and update

    @told
    def watch(self, optimizer):
        self.asked += 1
        if self.asked > OPTIMIZERS:
            return
        import weakref

        parameters = (each for group in optimizer.param_groups for each in group["params"] if each.requires_grad)
        path = path_to(next(parameters, None))
        for module in callers_in(path):
            if not any(module is each() for each, _ in self.watched):
                self.watched.append((weakref.ref(module), weakref.ref(path[-1])))
                self.attach(*self.watched[-1])

    def attach(self, module, owner):
        if module() is not None:
            enter, leave = memtune_parts.Hook(self.enter, owner), memtune_parts.Hook(self.leave)
            self.handles.append(module().register_forward_pre_hook(enter, with_kwargs=True))
            self.handles.append(module().register_forward_hook(leave))

    @told
    def attach_again(self):
        for each in self.watched if not self.training.over else ():
            self.attach(*each)

    def detach(self):
        handles, self.handles = self.handles, []
        for handle in handles:
            handle.remove()

    @told
    def enter(self, owner, module, arguments, named):
        import torch

        if self.training.depth > 0:  # recomputation
            return
        if self.outermost not in (None, id(module)):  # part of the model that runs
            if self.given is not None and self.given[2] == 0 and module is owner():  # an embedding gets tokens
                found = size_of((arguments, named))
                self.given = found if found[2] > 0 else self.given
            return
        self.outermost = id(module)
        trains = getattr(owner(), "training", module.training)  # a wrapper may not know
        self.ran_with_gradients = torch.is_grad_enabled()
        if not self.ran_with_gradients:
            self.without_gradients += 1
            self.training.oom.begin_run(size_of((arguments, named)))
            self.training.shares.run_without_gradients(trains)
            return
        self.end_outside()
        self.training.shares.begin_forward()
        if self.runs == 0:
            self.training.oom.begin_forward()
        self.runs += 1
        self.place = place_of(sys._getframe(1))
        self.unfollowed += self.place not in self.followed
        self.trains = trains
        if self.given is None:
            self.given = size_of((arguments, named))

    @told
    def leave(self, module, arguments, result):
        """Not called after an exception: then the next backward, or another run of the module, sets it right."""
        if self.outermost == id(module):
            self.outermost = None

    @told
    def begin_backward(self):
        self.end_outside()
        self.last, self.given = self.given or self.last, None
        self.sizes.append(self.last)
        self.usual = max(self.usual, self.runs)
        if self.runs > 0 and len(self.followed) < PLACES:
            self.followed.add(self.place)
        self.runs, self.unfollowed, self.trained, self.outermost = 0, 0, self.trains, None

    @told
    def end_backward(self):
        self.outside_began = self.training.now()

    def is_evaluating(self):
        """In evaluation mode, and still with gradients: after a backward in training mode, or again without any."""
        return self.runs > 0 and self.trains is False and (self.trained is True or self.runs > 1)

    def begin_update(self):
        self.outside_began = None

    def end_outside(self):
        if self.outside_began is not None and len(self.outside) < INTERVALS:
            self.outside.append((self.outside_began, self.training.now()))
        self.outside_began = None

    def begin_step(self, at):
        self.outside_began = at

    def end_step(self):
        """Of the step that ends: runs without gradients, moments outside of the passes."""
        found = self.without_gradients, self.outside
        self.without_gradients, self.outside, self.outside_began = 0, [], None
        return found

    def take_sizes(self, backwards):
        """Of the first backwards; None: of all."""
        taken, self.sizes = self.sizes[:backwards], [] if backwards is None else self.sizes[backwards:]
        return taken


def path_to(parameter):
    """Modules from the outermost one to the first that has this parameter."""
    for root in memtune_parts.find_roots() if parameter is not None else ():
        for names, module in root.named_modules():
            if any(each is parameter for each in (module.__dict__.get("_parameters") or {}).values()):
                path = [root]
                for name in names.split(".") if names else ():
                    path.append(memtune_parts.children_of(path[-1])[name])
                return path
    return []


def callers_in(path):
    """Those that may run the whole model: up to a list, which has its blocks. Also the last one."""
    depth = next((i for i, module in enumerate(path[1:], 1) if memtune_parts.is_list(module)), len(path))
    return path[:depth] + path[max(depth, len(path) - 1):]


def place_of(frame):
    """Of the script: every call that leads there."""
    place = 0
    while frame is not None:
        place, frame = hash((place, id(frame.f_code), frame.f_lasti)), frame.f_back
    return place


def size_of(given):
    """Rows, tokens and positions of the tokens, or of the first tensor: integers of shape (rows, length) are tokens."""
    import torch

    tensor = first_tensor(given)
    if tensor is None:
        return 0, 0, 0
    ids = tensor.dim() == 2 and not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    return (tensor.shape[0],) + ((tensor.numel(),) * 2 if ids else (0, 0))


def first_tensor(values):
    import torch

    if isinstance(values, torch.Tensor):
        return values if values.dim() > 0 else None
    if isinstance(values, Mapping):
        values = [values[name] for name in TOKENS if name in values] + list(values.values())
    if not isinstance(values, (tuple, list)):
        return None
    return next((found for found in map(first_tensor, values[:PARTS]) if found is not None), None)
