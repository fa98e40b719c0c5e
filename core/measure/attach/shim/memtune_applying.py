"""Applies an exported plan to the model that the process trains, before its first forward with gradients.

A hook sees the modules as they are called, outermost first. The first that the file's apply() accepts is the model. A
process that steps without the plan would measure something else, so it ends, with apply()'s reason.
"""

import functools
import sys
import weakref

import memtune_parts


class Applying:
    """Belongs to a Training. A hook of all modules is set until the plan is applied; then nothing of this runs."""

    def __init__(self, training, path):
        self.training, self.path = training, path
        self.applied = False
        self.known = {}  # modules of those that were tried, by id(), which is reused after deletion
        self.reason = "no model was called with gradients before its first update"
        self.handle = self.plans = None

    def watch(self, modules):
        """`modules`: torch.nn.modules.module."""
        self.handle = modules.register_module_forward_pre_hook(self.before_forward)

    def before_forward(self, module, arguments):
        import torch

        if torch.compiler.is_compiling() or not torch.is_grad_enabled() or self.is_known(module):
            return
        self.known.update((id(each), weakref.ref(each)) for each in module.modules())
        if next(module.parameters(), None) is None:
            return
        if self.apply_to(module) is not None:
            self.applied = True
            self.handle.remove()
            self.known = {}
            self.training.write(record="plan", applied=True)

    def is_known(self, module):
        known = self.known.get(id(module))
        return known is not None and known() is module

    def apply_to(self, module):
        """Returns None if the module was not accepted."""
        import torch

        if isinstance(module, torch.nn.DataParallel):
            self.reason = "torch.nn.DataParallel runs copies of the model, which have no plan"
            return None
        try:
            return self.load().apply(module)
        except Exception as error:
            self.reason = "%s%s" % ("" if type(error).__name__ == "PlanError" else type(error).__name__ + ": ", error)
            return None

    def load(self):
        """Loads it by the name that the script would import, so that it is not applied a second time unnoticed."""
        if self.plans is None:
            from importlib.util import module_from_spec, spec_from_file_location

            spec = spec_from_file_location("memtune_plan", self.path)
            plans = sys.modules["memtune_plan"] = module_from_spec(spec)
            spec.loader.exec_module(plans)
            self.plans = plans
            self.tell_warnings()
        return self.plans

    def tell_warnings(self):
        """Warnings about parts of the plan that are not applied become notes too."""
        import warnings

        show = warnings.showwarning

        @functools.wraps(show)
        def showwarning(message, *arguments, **named):
            if str(message).startswith("memtune_plan: "):
                self.training.note(str(message))
            return show(message, *arguments, **named)

        warnings.showwarning = showwarning

    def check(self):
        """Called before an update. Raises SystemExit if the plan is not applied."""
        if self.applied:
            return
        self.explain()
        self.training.over = True
        self.training.write(record="plan", applied=False, reason=self.reason)
        raise SystemExit(0)

    def explain(self):
        """If no hook saw the model, because its forward is compiled, apply() gives the reason."""
        try:
            models = memtune_parts.find_models(set())
            if not models or self.is_known(models[0][0]):
                return
            root = models[0][0]
            plan = self.apply_to(root)
            if plan is not None:
                plan.remove()
                self.reason = "the model's forward could not be seen before it ran"
        except Exception:  # the reason stays unchanged
            pass
