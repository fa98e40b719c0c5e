"""Watches when the trained model runs: what it is given, how often it runs without gradients, and the time outside of its
passes.

A hook of one module for each optimizer reports it: of the module that has the optimizer's first parameter, which most
models run first. It returns nothing, so it changes no tensor and no graph. A compiled model runs without it.
"""

import memtune_parts

OPTIMIZERS = 8  # a script may have one for each parameter
INTERVALS = 64  # of a step


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
        self.runs, self.usual = 0, 0  # with gradients: since the last backward; the most before an earlier one
        self.trains = self.trained = None  # training mode: in the last of them, and in that before the last backward
        self.outside, self.outside_began = [], None  # moments outside of forward, backward and update

    @told
    def watch(self, optimizer):
        self.asked += 1
        if self.asked > OPTIMIZERS:
            return
        parameters = (each for group in optimizer.param_groups for each in group["params"] if each.requires_grad)
        module = owner_of(next(parameters, None))
        if module is not None and not any(module is each() for each in self.watched):
            import weakref

            self.watched.append(weakref.ref(module))
            hook = memtune_parts.Hook(self.enter)
            self.handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def detach(self):
        for handle in self.handles:
            handle.remove()

    @told
    def enter(self, module, arguments, named):
        import torch

        if self.training.depth > 0:  # recomputation
            return
        self.ran_with_gradients = torch.is_grad_enabled()
        if not self.ran_with_gradients:
            self.without_gradients += 1
            self.training.oom.begin_run(size_of((*arguments, *named.values())))
            self.training.shares.run_without_gradients(module.training)
            return
        self.end_outside()
        self.training.shares.begin_forward()
        if self.runs == 0:
            self.training.oom.begin_forward()
        self.runs += 1
        self.trains = module.training
        if self.given is None:
            self.given = size_of((*arguments, *named.values()))

    @told
    def begin_backward(self):
        self.end_outside()
        self.last, self.given = self.given or self.last, None
        self.sizes.append(self.last)
        self.usual = max(self.usual, self.runs)
        self.runs, self.trained = 0, self.trains

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


def owner_of(parameter):
    """The first module with this parameter."""
    if parameter is None:
        return None
    for root in memtune_parts.find_roots():
        for module in root.modules():
            if any(each is parameter for each in (module.__dict__.get("_parameters") or {}).values()):
                return module
    return None


def size_of(values):
    """Rows, tokens and positions of the first tensor: integers of shape (rows, length) are tokens."""
    import torch

    tensor = next((each for each in values if isinstance(each, torch.Tensor) and each.dim() > 0), None)
    if tensor is None:
        return 0, 0, 0
    ids = tensor.dim() == 2 and not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    return (tensor.shape[0],) + ((tensor.numel(),) * 2 if ids else (0, 0))
