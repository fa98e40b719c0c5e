"""Parameters and optimizer states in host memory. Export puts this into memtune_plan.py, from the mark on."""
from __future__ import annotations

import sys
import warnings
from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from memtune_values import PlanError, Streams, storage_of

# --- states -----------------------------------------------------------------------------------------------------------

# Optimizers that update each parameter by its own gradient, states and settings alone, by package.
OPTIMIZERS = {"torch": "Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD Muon NAdam RAdam RMSprop Rprop SGD",
              "transformers": "Adafactor", "bitsandbytes": " ".join(
                  name + bits for name in ("Adam", "AdamW", "Lion", "SGD") for bits in ("", "8bit", "32bit"))}


def refusals(optimizer: Any, plain: Any) -> list[tuple[bool, str]]:
    """Why parameters and optimizer states cannot be offloaded. plain: the optimizer without accelerate's wrapper."""
    ranks = torch.distributed.get_world_size() if torch.distributed.is_available() and \
        torch.distributed.is_initialized() else 1
    kind, package = type(plain).__name__, type(plain).__module__.split(".")[0]
    return [
        (ranks > 1,
         f"the plan offloads parameters and optimizer states on one GPU, and this training has {ranks} ranks"),
        (kind not in OPTIMIZERS.get(package, "").split() or getattr(plain, "is_paged", False),
         f"the plan cannot run {type(plain).__module__}.{kind} block by block: it knows " +
         "; ".join(f"{names} of {where}" for where, names in OPTIMIZERS.items())),
        (bool(getattr(plain, "_optimizer_step_pre_hooks", None) or getattr(plain, "_optimizer_step_post_hooks", None)),
         "the optimizer has hooks that run before or after its step, and it updates block by block"),
        (getattr(optimizer, "scaler", None) is not None, SCALED)]


CLIPPED = "offloaded gradients are clipped by the 2-norm of all gradients of the model, by clip_grad_norm_"
SCALED = "a gradient scaler, as float16 needs, does not see offloaded gradients: train in bfloat16"


class Row:
    """Tensors that are loaded and freed together: pieces of one memory on the device, and of one on the host."""

    def __init__(self, streams: Streams, tensors: list[Any]) -> None:
        self.streams, self.layouts, self.count = streams, [(t.dtype, t.size(), t.stride()) for t in tensors], 0
        self.places = list[tuple[int, int]]()  # first byte, bytes
        for t in tensors:
            count = t.element_size() * (1 + sum((n - 1) * s for n, s in zip(t.size(), t.stride()))) if t.numel() else 0
            self.places.append((self.count, count))
            self.count += -(-count // 64) * 64
        self.device = torch.empty(self.count, dtype=torch.uint8, device=streams.device)
        self.host = torch.empty(self.count, dtype=torch.uint8, pin_memory=streams.cuda)
        self.loaded: Any = None  # event at the end of a copy to the device
        self.stored: Any = None  # event at the end of a copy to the host

    def take(self, tensors: list[Any]) -> list[Tensor]:
        """Copies them to host memory. Returns their pieces on the device, which have no bytes until load()."""
        pieces = self.pieces(self.device)
        for piece, t in zip(pieces, tensors):
            piece.copy_(t)
        self.store()
        self.free()
        return pieces

    def pieces(self, memory: Tensor) -> list[Tensor]:
        return [memory[begin:begin + count].view(dtype).as_strided(size, stride)
                for (begin, count), (dtype, size, stride) in zip(self.places, self.layouts)]

    def is_there(self) -> bool:
        return self.device.untyped_storage().nbytes() > 0

    def make_room(self) -> None:
        self.device.untyped_storage().resize_(self.count)

    def load(self) -> None:
        if self.is_there() or not self.count:
            return
        self.make_room()
        if self.stored is not None:
            self.streams.back.wait_event(self.stored)  # type: ignore[union-attr]
        self.loaded = self.streams.copy(self.streams.back, self.device, self.host)

    def wait(self) -> None:
        self.streams.wait(self.loaded)
        self.loaded = None

    def store(self) -> None:
        self.stored = self.streams.copy(self.streams.out, self.host, self.device)
        if self.streams.cuda:  # freed memory is used again only after the copy
            self.device.record_stream(self.streams.out)  # type: ignore[arg-type]

    def free(self) -> None:
        self.wait()  # memory under a running copy cannot be used again
        self.device.untyped_storage().resize_(0)

    def on_host(self) -> list[Tensor]:
        if self.stored is not None:
            self.stored.synchronize()
        return self.pieces(self.host)

    def copies(self) -> list[Tensor]:
        """Copies of the tensors on the device, or in host memory if the device has no room."""
        try:
            self.load()
            self.wait()
            return [piece.clone() for piece in self.pieces(self.device)]
        except torch.OutOfMemoryError:
            return [piece.clone() for piece in self.on_host()]
        finally:
            self.free()


class Unit:
    """Parameters of a block, or one outside of blocks, with their gradients and optimizer states."""

    def __init__(self, states: OffloadedModelStates, parameters: list[nn.Parameter], moves: bool,
                 moments: bool) -> None:
        self.states, self.moments, self.rows = states, moments, dict[str, Row]()
        self.trained = [p for p in parameters if p.requires_grad]
        self.placed = {"trained": self.trained, "frozen": [p for p in parameters if not p.requires_grad]}
        self.norms: dict[int, Tensor] = {}  # of gradients that step() has not applied yet, by id of the parameter
        self.made = set[int]()  # parameters whose gradient is in host memory, by id
        self.pending = False  # the gradients in host memory are those of a step
        self.factor: Tensor | None = None  # of gradient clipping
        self.settings: list[dict[str, Any]] | None = None  # of the optimizer's groups at the pending step
        self.moment_keys: list[tuple[nn.Parameter, str]] = []  # of the row's pieces
        self.loads = 0  # modules that load_state_dict is in
        self.ended = False  # outside of blocks: this backward has made its gradient
        self.early = False  # and did so before that of any block, as for an output layer
        for name, own in self.placed.items():
            if moves and own:
                self.rows[name] = Row(states.streams, own)
                for p, piece in zip(own, self.rows[name].take(own)):
                    p.data = piece
        self.move_moments()

    def move_moments(self) -> None:
        """Moves states that the optimizer has made or replaced, but for scalars and tables that several share. Those
        that were moved earlier have to be on the device."""
        if not self.moments:
            return
        state, row = self.states.optimizer.state, self.rows.get("moments")
        found = [(p, key, value) for p in self.trained for key, value in state.get(p, {}).items()
                 if isinstance(value, Tensor) and value.numel() > 1024]
        if all(row is not None and storage_of(value) == storage_of(row.device) for *_, value in found):
            return
        self.states.grown = True
        self.moment_keys = [(p, key) for p, key, _ in found]
        self.rows["moments"] = row = Row(self.states.streams, [value for *_, value in found])
        for (p, key), piece in zip(self.moment_keys, row.take([value for *_, value in found])):
            state[p][key] = piece

    def load(self, *names: str) -> None:
        for name in names:
            if name in self.rows:
                self.rows[name].load()

    def wait(self, *names: str) -> None:
        for name in names:
            if name in self.rows:
                self.rows[name].wait()

    def free(self) -> None:
        for row in self.rows.values():
            if row.is_there():
                row.free()

    def update(self) -> None:
        """Runs the optimizer for the parameters that have a gradient. All rows are on the device."""
        self.states.update([p for p in self.trained if p.grad is not None], self.settings)
        for p in self.trained:
            p.grad = None
        for name in ("trained", "moments"):
            if name in self.rows:
                self.rows[name].store()
        self.move_moments()

    def take_gradients(self) -> None:
        """Moves gradients to host memory, added to those of earlier micro-batches."""
        if "gradients" not in self.rows:
            self.rows["gradients"] = Row(self.states.streams, self.trained)
        row = self.rows["gradients"]
        row.load() if self.made else row.make_room()
        row.wait()
        pieces = dict(zip(self.trained, row.pieces(row.device)))
        for p, piece in pieces.items():
            if p.grad is not None:
                piece.add_(p.grad) if id(p) in self.made else piece.copy_(p.grad)
                self.made.add(id(p))
            p.grad = None
        made = {id(p): piece for p, piece in pieces.items() if id(p) in self.made}
        self.norms = dict(zip(made, torch._foreach_norm(list(made.values()))))
        row.store()

    def update_pending(self) -> None:
        """The update of the last step. All rows are loaded."""
        self.wait("trained", "moments", "gradients")
        row = self.rows["gradients"]
        for p, piece in zip(self.trained, row.pieces(row.device)):
            if id(p) in self.made:
                p.grad = piece if self.factor is None else piece.mul_(self.factor)
        self.update()
        self.forget()
        for name in ("moments", "gradients"):
            if name in self.rows:
                self.rows[name].free()

    def forget(self) -> None:
        """Gradients in host memory are not needed any more."""
        self.pending, self.made, self.norms, self.settings = False, set(), {}, None


class OffloadedModelStates:
    """Loads a block's parameters ahead of its forward and backward, and runs the optimizer for it: inside backward, or
    when the next forward loads the block (`deferred`), for gradient clipping and accumulation."""

    def __init__(self, model: nn.Module, blocks: list[nn.Module], optimizer: Any, plan: dict[str, Any],
                 deferred: bool, streams: Streams) -> None:
        self.model, self.optimizer, self.deferred, self.streams = model, optimizer, deferred, streams
        self.factor: Tensor | None = None
        self.grown = True  # the device has free memory that nothing needs any more
        self.running, self.passes = -1, 0  # block that backward is in (-1: none); backward passes of this step
        self.inputs = set[Any]()  # functions that made the inputs of the running block
        self.undo = list[Any]()
        names, owned = Counter(p for _, p in model.named_parameters(remove_duplicate=False)), dict[int, list[Any]]()
        for i in sorted({*plan["parameters"], *plan["moments"]}):
            here = Counter(p for _, p in blocks[i].named_parameters(remove_duplicate=False))
            owned[i] = [p for p, count in here.items() if count == names[p]]  # others have a name outside of the block
            if not owned[i]:
                raise PlanError(f"block {i} has no parameters of its own, and the plan offloads some")
        with torch.no_grad():
            self.units = {i: Unit(self, own, i in plan["parameters"], i in plan["moments"]) for i, own in owned.items()}
            self.held = {p for unit in self.units.values() for p in unit.trained}
            inside = {p for block in blocks for p in block.parameters()}
            own = [p for p in model.parameters() if p not in inside]
            self.outside = [Unit(self, [p], False, True) for p in own if p.requires_grad] if plan["outside"] else []
            self.move_rest()
        self.release()
        self.every = [*self.units.values(), *self.outside]
        self.rows = {storage_of(unit.rows[name].device): unit.rows[name] for unit in self.every
                     for name in unit.placed if name in unit.rows}
        self.places = {p: (unit.rows[name], i) for unit in self.every for name, own in unit.placed.items()
                       if name in unit.rows for i, p in enumerate(own)}
        self.order = list(self.units)
        self.patch(blocks)

    def move_rest(self) -> None:
        """Moves to the device what is not offloaded, if the model is on the CPU."""
        device, groups = self.streams.device, self.optimizer.param_groups
        for t in [*self.model.parameters(), *self.model.buffers()]:
            if t.device != device:
                t.data = t.data.to(device)
        counts = any(group.get("fused") or group.get("capturable") for group in groups)  # steps are counted on the GPU
        for state in self.optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, Tensor) and (value.numel() > 1 or counts):
                    state[key] = value.to(device)

    # --- passes

    def begin_forward(self, index: int, inputs: list[Tensor]) -> None:
        device = self.streams.device.type
        if torch.is_grad_enabled() and torch.is_autocast_enabled(device) and \
                torch.get_autocast_dtype(device) == torch.float16:
            raise PlanError(SCALED)
        if torch._C._current_graph_task_id() < 0:
            self.running = -1  # if the last backward failed
            for outside in self.outside:
                outside.ended = False
        self.inputs = {t.grad_fn for t in inputs}
        if (unit := self.units.get(index)) is None:
            return
        with torch.no_grad():
            self.load_for_forward(unit)
            if unit.pending:
                unit.update_pending()
            unit.wait(*unit.placed)
            if (later := self.order.index(index) + 1) < len(self.order):
                self.load_for_forward(self.units[self.order[later]])

    def load_for_forward(self, unit: Unit) -> None:
        unit.load(*unit.placed, *(("gradients", "moments") if unit.pending else ()))

    def end_forward(self, index: int, result: list[Tensor]) -> None:
        """Backward begins with the last block, so it stays. `result`: tensors whose gradient backward makes before
        those of the block, but for inputs that it passes on."""
        unit = self.units.get(index)
        made = [t for t in result if t.grad_fn is not None and t.grad_fn not in self.inputs]
        for t in made:
            t.register_hook(lambda _: self.begin_backward(index))
        self.inputs = set()
        if unit is None:
            return
        torch.clear_autocast_cache()  # casts of its parameters
        if made and index == self.order[-1]:
            self.load_outside(early=True)
        elif index != self.running:
            unit.free()

    def begin_backward(self, index: int) -> None:
        if index == self.running:
            return
        with torch.no_grad():
            if self.running < 0:
                self.passes += 1
                if self.passes > 1 and not self.deferred:
                    raise PlanError("a second backward before optimizer.step(), as gradient accumulation has: "
                                    "apply(model, optimizer, deferred=True)")
                torch.autograd.Variable._execution_engine.queue_callback(self.end_backward)
            self.end_outside()
            self.end_unit()
            self.running = index
            earlier = [i for i in self.order if i <= index]
            for unit in (self.units[i] for i in earlier[-2:][::-1]):
                unit.load(*unit.placed)
                if not self.deferred:
                    unit.load("moments")
                elif unit.made:
                    unit.load("gradients")
            if index in self.units:  # need() sees no tensor subclasses
                self.units[index].wait("trained", "frozen")
            if len(earlier) < 2:
                self.load_outside(early=False)

    def load_outside(self, early: bool) -> None:
        for unit in self.outside:
            if unit.early == early and not self.deferred:
                unit.load("moments")

    def end_outside(self) -> None:
        """Updates parameters outside of blocks whose gradients were made before those of any block."""
        for unit in self.outside if self.running < 0 and not self.deferred else []:
            unit.early = unit.ended
            if unit.ended:
                unit.load("moments")
                self.update_early(unit)

    def end_gradient(self, unit: Unit, _: Tensor) -> None:
        if unit.ended and unit.norms:
            raise PlanError("a parameter outside of blocks gets its gradient in several parts, and the plan has used "
                            "the first: apply(model, optimizer, deferred=True)")
        unit.ended = True

    def need(self, t: Tensor) -> None:
        """Called when backward uses a tensor that was not recomputed. It may be a parameter of another block."""
        if (row := self.rows.get(storage_of(t))) is not None and (row.loaded is not None or not row.is_there()):
            row.load()
            row.wait()

    def end_unit(self) -> None:
        """All gradients of the block are made."""
        if (unit := self.units.get(self.running)) is None:
            return
        if self.deferred and any(p.grad is not None for p in unit.trained):
            unit.take_gradients()
        self.update_early(unit)
        unit.free()

    def update_early(self, unit: Unit) -> None:
        """Updates inside backward, if there are gradients. The unit's rows are loaded."""
        if not (made := {id(p): p.grad for p in unit.trained if p.grad is not None}):
            return
        unit.norms = dict(zip(made, torch._foreach_norm(list(made.values()))))
        unit.wait("moments")
        unit.update()
        unit.free()

    def end_backward(self) -> None:
        with torch.no_grad():
            self.end_unit()
            for unit in self.units.values():
                unit.free()
        self.running = -1

    # --- the optimizer

    def update(self, parameters: list[nn.Parameter], settings: list[dict[str, Any]] | None = None) -> None:
        """Runs the optimizer's own step for these parameters alone. settings: of its groups, such as learning rates."""
        groups, wanted = list(self.optimizer.param_groups), set(parameters)
        before = [dict(group) for group in groups]
        try:
            for i, group in enumerate(groups):
                group.update(settings[i] if settings else {}, params=[p for p in group["params"] if p in wanted])
            self.optimizer.param_groups[:] = [group for group in groups if group["params"]]
            if self.optimizer.param_groups:
                with torch.autocast(self.streams.device.type, enabled=False):
                    type(self.optimizer).step(self.optimizer)
        finally:
            for group, own in zip(groups, before):
                group.update(own)
            self.optimizer.param_groups[:] = groups

    def step(self, closure: Any = None) -> None:
        if closure is not None:
            raise PlanError("the plan updates blocks one by one: call optimizer.step() without a closure")
        self.optimizer._opt_called, self.passes = True, 0  # the first for learning rate schedulers
        with torch.no_grad():
            settings = [{key: value.clone() if isinstance(value, Tensor) else value for key, value in group.items()
                         if key != "params"} for group in self.optimizer.param_groups]
            for unit in self.every:
                unit.norms = {}
                if unit.made and not unit.pending:
                    unit.pending, unit.factor, unit.settings = True, self.factor, settings
            self.factor = None
            left = [unit for unit in self.outside if unit.trained[0].grad is not None]
            for unit in left:
                unit.load("moments")
                unit.wait("moments")
            self.update([p for group in self.optimizer.param_groups for p in group["params"]
                         if p.grad is not None and p not in self.held])
            for unit in left:
                if "moments" in unit.rows:
                    unit.rows["moments"].store()
                unit.move_moments()
            for unit in self.outside:
                unit.free()
            self.release()

    def release(self) -> None:
        """Gives memory back to the GPU that the model had, or states before they were moved."""
        if self.grown and self.streams.cuda:
            torch.cuda.empty_cache()
        self.grown = False

    def zero_grad(self, inner: Any, *args: Any, **kwargs: Any) -> None:
        inner(*args, **kwargs)
        for unit in self.every:
            if not unit.pending:
                unit.forget()

    def finish(self) -> None:
        """Runs the updates that wait for the next forward."""
        with torch.no_grad():
            for unit in self.units.values():
                if unit.pending:
                    self.load_for_forward(unit)
                    unit.update_pending()
                    unit.free()

    def total_norm(self, inner: Any, tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:
        norms = {i: norm for unit in self.every for i, norm in unit.norms.items()}
        there = {id(p): p.grad for p in self.model.parameters() if p.grad is not None}
        tensors, own = list(tensors), set(map(id, there.values()))
        if not norms or set(map(id, tensors)) - own:  # of another model
            return inner(tensors, norm_type, error_if_nonfinite, foreach)
        if float(norm_type) != 2 or len(tensors) < len(own):
            raise PlanError(CLIPPED)
        norms.update(zip(there, torch._foreach_norm(list(there.values()))))
        total = torch.linalg.vector_norm(torch.stack([norms[id(p)] for p in self.model.parameters() if id(p) in norms]))
        if error_if_nonfinite and not total.isfinite():
            raise RuntimeError("the total norm of gradients is not finite, so it cannot be clipped")
        return total

    def clip(self, inner: Any, parameters: Any, max_norm: float, total_norm: Tensor, *args: Any, **kwargs: Any) -> None:
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        norms = {i: norm for unit in self.every for i, norm in unit.norms.items()}
        mine = norms.keys() & set(map(id, parameters))
        if mine and mine != norms.keys():
            raise PlanError(CLIPPED)
        if mine and not self.deferred and max_norm < float("inf"):  # Trainer asks for the norm alone
            raise PlanError("gradients of blocks are used up inside backward, before they can be clipped: "
                            "apply(model, optimizer, deferred=True)")
        inner(parameters, max_norm, total_norm, *args, **kwargs)
        if mine:
            factor = torch.clamp(max_norm / (total_norm + 1e-6), max=1.0)
            self.factor = factor if self.factor is None else self.factor * factor
            torch._foreach_mul_(list(norms.values()), factor)  # may be clipped once more

    def clip_values(self, *_: Any, **__: Any) -> None:
        raise PlanError(CLIPPED)

    # --- what others call

    def patch(self, blocks: list[nn.Module]) -> None:
        def replace(owner: Any, name: str, new: Any) -> None:
            before = owner.__dict__.get(name)
            setattr(owner, name, new)
            self.undo.append(lambda: setattr(owner, name, before) if before else delattr(owner, name))

        optimizer, clipping = self.optimizer, sys.modules["torch.nn.utils.clip_grad"]
        step = partial(self.step)
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # else schedulers warn
        replace(optimizer, "step", step)
        replace(optimizer, "load_state_dict", partial(self.load_moments, optimizer.load_state_dict))
        for owner in (optimizer, self.model):
            replace(owner, "zero_grad", partial(self.zero_grad, owner.zero_grad))
        for name, new in (("_get_total_norm", self.total_norm), ("_clip_grads_with_norm_", self.clip)):
            replace(clipping, name, partial(new, getattr(clipping, name)))
        for owner in (clipping, torch.nn.utils):
            replace(owner, "clip_grad_value_", self.clip_values)
        self.undo.append(optimizer.register_state_dict_post_hook(self.save_moments).remove)
        for unit in self.outside:
            made = partial(self.end_gradient, unit)
            self.undo.append(unit.trained[0].register_post_accumulate_grad_hook(made).remove)
        replace(self.model, "__deepcopy__", self.refuse_copy)
        for i, unit in self.units.items():
            replace(blocks[i], "__deepcopy__", self.refuse_copy)
            for module in blocks[i].modules():
                for hook in (module.register_state_dict_post_hook(partial(self.save_parameters)),
                             module.register_load_state_dict_pre_hook(partial(self.begin_load, unit)),
                             module.register_load_state_dict_post_hook(partial(self.end_load, unit))):
                    self.undo.append(hook.remove)

    def refuse_copy(self, *_: Any) -> None:
        raise PlanError("the model's parameters are in host memory: remove() the plan before the model is copied")

    def save_parameters(self, module: nn.Module, state_dict: dict[str, Any], prefix: str, _: Any) -> None:
        """Puts copies of what is in host memory into the module's state_dict."""
        self.finish()
        for name, p in module.named_parameters(recurse=False):
            if p in self.places:
                row, i = self.places[p]
                state_dict[prefix + name] = row.on_host()[i].clone()

    def begin_load(self, unit: Unit, module: nn.Module, state_dict: Any, prefix: str, metadata: dict[str, Any],
                   *_: Any) -> None:
        if metadata.get("assign_to_params_buffers"):
            raise PlanError("load_state_dict(assign=True) replaces parameters that are in host memory: remove() the "
                            "plan first")
        self.finish()
        unit.loads += 1
        unit.load(*unit.placed)
        unit.wait(*unit.placed)

    def end_load(self, unit: Unit, *_: Any) -> None:
        unit.loads -= 1
        if unit.loads == 0:
            for row in (unit.rows[name] for name in unit.placed if name in unit.rows):
                row.store()
            unit.free()

    def save_moments(self, optimizer: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Puts copies of what is in host memory into the optimizer's state_dict."""
        self.finish()
        number = {p: i for i, p in enumerate(p for group in optimizer.param_groups for p in group["params"])}
        for unit in self.every:
            pieces = unit.rows["moments"].on_host() if "moments" in unit.rows else []
            for (p, key), piece in zip(unit.moment_keys, pieces):
                saved = state_dict["state"][number[p]]
                state_dict["state"][number[p]] = {**saved, key: piece.clone()}
        return state_dict

    def load_moments(self, inner: Any, *args: Any, **kwargs: Any) -> None:
        self.finish()
        inner(*args, **kwargs)
        with torch.no_grad():
            for unit in self.every:
                unit.move_moments()

    def remove(self) -> None:
        """Moves everything back to the device, as far as it has room, and restores optimizer and model."""
        self.finish()
        left = list[Tensor]()
        with torch.no_grad():
            for unit in self.every:
                for name in unit.placed.keys() & unit.rows.keys():
                    for p, t in zip(unit.placed[name], unit.rows.pop(name).copies()):
                        p.data = t
                        left.append(t)
            for unit in self.every:
                if unit.made:
                    for p, t in zip(unit.trained, unit.rows["gradients"].copies()):
                        p.grad = t.to(p.device) if id(p) in unit.made else None
                if "moments" in unit.rows:
                    for (p, key), t in zip(unit.moment_keys, unit.rows["moments"].copies()):
                        self.optimizer.state[p][key] = t
                        left.append(t)
        if any(t.device != self.streams.device for t in left):
            warnings.warn("memtune_plan: the device has no room for all parameters and optimizer states without the "
                          "plan, so some are in CPU memory")
        while self.undo:
            self.undo.pop()()
