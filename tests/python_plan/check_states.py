"""Tests plans that offload parameters and optimizer states: training under the plan has the bits of training without."""
import copy
import itertools
import os
import tempfile
import warnings
from unittest import mock

import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

import plans
from plans import at_night, llama

mp = plans.load(words=plans.STATES)
moving = plans.load(words=plans.MOVING_STATES)
warnings.filterwarnings("ignore", message="memtune_plan: the blocks run none of")
BLOCKS, WIDTH, TOKENS = 4, 32, 50


class Block(nn.Module):
    """Passes on its first input, as models do with what all blocks read."""

    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.spare = nn.Linear(d, d)  # in some batches

    def forward(self, first, x):
        x = x + self.down(torch.relu(self.up(self.norm(x))))
        return first, self.spare(x) if x[0, 0, 0] > 0.4 else x


class Model(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Block(WIDTH) for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        first = x = self.embed(ids)
        for layer in self.layers:
            first, x = layer(first, x)
        return self.head(self.norm(x + first))


class LateStreams(mp.Streams):
    """A copy to the device runs when compute waits for it. Until then its target has the bits of NaN."""

    def __init__(self, device):
        super().__init__(device)
        self.out, self.back, self.late = "out", "back", 0

    def copy(self, stream, target, source):
        if stream == "out":
            return super().copy(None, target, source)
        self.late += 1
        target.fill_(255)
        return lambda: target.copy_(source)

    def wait(self, event):
        if event is not None:
            event()


def optimizer_of(kind, groups):
    """kind: "AdamW" of torch, "tensor" with a tensor as learning rate, or "package.Name"."""
    package, _, name = kind.rpartition(".")
    if package == "transformers":
        from transformers.optimization import Adafactor
        return Adafactor(groups, lr=1e-2, relative_step=False, scale_parameter=False)
    options = {"momentum": 0.9} if name.startswith("SGD") else {}
    if package == "bitsandbytes":
        import bitsandbytes.optim
        return getattr(bitsandbytes.optim, name)(
            groups, lr=1e-2, **options, **({"min_8bit_size": 128} if "8bit" in name else {}))
    if kind == "tensor":
        return torch.optim.AdamW(groups, lr=torch.tensor(1e-2))
    return getattr(torch.optim, name)(groups[:1] if name == "Muon" else groups, lr=1e-2, **options)


class Case:
    def __init__(self, tied=False, frozen=False, dtype=torch.float32, kind="AdamW", clip=0.0, accumulate=1, cast=False,
                 shared=False):
        self.clip, self.accumulate, self.cast, self.step_index, self.device = clip, accumulate, cast, 0, "cpu"
        torch.manual_seed(0)
        self.model = model = Model(tied).to(dtype)
        if shared:
            model.norm = model.layers[1].norm
        for name, p in model.named_parameters():
            p.requires_grad_(not frozen or not (".up." in name or "embed" in name))
        trained = [p for p in model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1},
                  {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = optimizer_of(kind, groups)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda s: 1 / (1 + s))

    @property
    def deferred(self):
        return self.clip > 0 or self.accumulate > 1

    def loss(self):
        ids = torch.randint(TOKENS, (4, 16), generator=torch.Generator().manual_seed(self.step_index))
        ids = ids.to(self.device)
        self.step_index += 1
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.cast):
            return F.cross_entropy(self.model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()) / self.accumulate

    def train(self, steps):
        """Losses, norms and what the model computes in an evaluation."""
        seen = []
        for step in range(steps):
            for _ in range(self.accumulate):
                loss = self.loss()
                loss.backward()
                seen.append(loss.item())
            if self.clip:
                seen.append(nn.utils.clip_grad_norm_(self.model.parameters(), self.clip).item())
            self.optimizer.step()
            self.scheduler.step()
            (self.optimizer if step % 2 else self.model).zero_grad()
            if step == 2:
                with torch.no_grad():
                    seen.append(self.model(torch.arange(16, device=self.device)[None]).float().sum().item())
        return seen

    def state(self):
        return [self.model.state_dict(), self.optimizer.state_dict()]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a.cpu(), b.cpu())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def plan_of(parameters=range(BLOCKS), moments=range(BLOCKS), outside=1, others="recompute recompute",
            kept="/add#0 spare/linear#0"):
    return plans.data(BLOCKS, others, ops={"keep recompute": kept}, states={
        "parameters": list(parameters), "moments": list(moments), "outside": outside, "deferred": 0})


def apply(case, plan=None, module=mp, **options):
    module.PLAN = plan or plan_of()
    return module.apply(case.model, case.optimizer, **{"deferred": case.deferred, **options})


def is_offloaded(p):
    return p.untyped_storage().nbytes() == 0


def follows(plan, module=mp, steps=4, **options):
    plain, case = Case(**options), Case(**options)
    run = apply(case, plan, module)
    what = (plan["states"], options)
    assert case.train(steps) == plain.train(steps), what
    for i, block in enumerate(case.model.layers):
        assert is_offloaded(block.up.weight) == (i in plan["states"]["parameters"]), what
        large = [v for v in case.optimizer.state.get(block.up.weight, {}).values() if isinstance(v, torch.Tensor) and
                 v.numel() >= block.up.weight.numel()]
        assert all(is_offloaded(v) == (i in plan["states"]["moments"]) for v in large), what
    assert same(case.state(), plain.state()), what
    assert case.train(1) == plain.train(1), what
    late = getattr(run.streams, "late", 1)
    assert late > 0
    run.remove()
    assert not any(map(is_offloaded, case.model.parameters()))
    assert same(case.state(), plain.state()), what
    assert case.train(1) == plain.train(1), ("removed", what)


ALL, HALF, MOMENTS = plan_of(), plan_of([1, 3], [1, 3], 0), plan_of(parameters=[])


def check_trainings():
    for options in ({}, {"clip": 0.5}, {"accumulate": 3}, {"clip": 0.5, "accumulate": 3}, {"tied": True},
                    {"shared": True}, {"frozen": True}, {"frozen": True, "clip": 0.5}, {"dtype": torch.bfloat16},
                    {"kind": "SGD"}, {"kind": "SGD", "accumulate": 3}, {"kind": "tensor", "clip": 0.5},
                    {"cast": True}, {"cast": True, "clip": 0.5}):
        follows(ALL, **options)
    follows(plan_of(moments=[]))
    follows(plan_of(moments=[]), clip=0.5)
    for others in ("recompute host", "host keep"):
        follows(plan_of(others=others), moving, clip=0.5)


def check_optimizers():
    """Each that apply accepts, those of bitsandbytes with MEMTUNE_NIGHT."""
    for package, names in mp.OPTIMIZERS.items():
        for name in names.split() if package != "bitsandbytes" or plans.NIGHT else ():
            follows(HALF, kind=name if package == "torch" else f"{package}.{name}", steps=2)


@at_night
def check_many_trainings():
    flags = (False, True)
    for tied, frozen, dtype, kind, clip, accumulate, outside, plan in itertools.product(
            flags, flags, (torch.float32, torch.bfloat16), ("AdamW", "SGD", "tensor"), (0, 0.5), (1, 3), (0, 1),
            (ALL, HALF, MOMENTS)):
        if tied + frozen + (dtype is torch.bfloat16) + (kind != "AdamW") > 1:
            continue
        plan = {**plan, "states": {**plan["states"], "outside": outside}}
        follows(plan, tied=tied, frozen=frozen, dtype=dtype, kind=kind, clip=clip, accumulate=accumulate)


def check_copies_are_awaited():
    with mock.patch.object(mp, "Streams", LateStreams):
        for plan in (ALL, HALF, MOMENTS):
            for options in ({}, {"clip": 0.5}, {"frozen": True, "accumulate": 2}):
                follows(plan, **options)


def check_blocks_are_on_the_device_one_ahead():
    """At most the block that runs and the next one, each copied once per pass."""
    case, most = Case(), 0
    run = apply(case)

    def count(*_):
        nonlocal most
        most = max(most, sum(not is_offloaded(b.up.weight) for b in case.model.layers))

    for layer in case.model.layers:
        layer.up.register_forward_hook(count)
        layer.up.register_full_backward_hook(count)
    case.train(2)
    count()
    assert most == 2, most
    with mock.patch.object(mp, "Streams", LateStreams):
        other = Case()
        streams = apply(other).streams
        other.train(1)
        before = streams.late
        other.train(1)
    # Parameters in forward, but for the last block's in backward, optimizer states of blocks, of embedding and head.
    assert streams.late - before == BLOCKS + (BLOCKS - 1) + BLOCKS + 2, streams.late - before
    assert not any(row.is_there() for unit in run.states.every for row in unit.rows.values())
    run.remove()


def check_output_layer_is_updated_in_backward():
    """Its gradient is made before those of blocks; those of an embedding and of a tied head are made after them."""
    for tied, deferred in itertools.product((False, True), repeat=2):
        case = Case(tied=tied)
        apply(case, deferred=deferred)
        for _ in range(2):
            case.loss().backward()
            assert (case.model.head.weight.grad is None) == (not tied and not deferred), (tied, deferred)
            assert case.model.embed.weight.grad is not None
            plain = Case(tied=tied) if case.step_index == 1 else plain
            plain.loss().backward()
            norms = [nn.utils.clip_grad_norm_(each.model.parameters(), float("inf")) for each in (case, plain)]
            assert torch.equal(*norms), (tied, deferred)
            for each in (case, plain):
                each.optimizer.step()
                each.optimizer.zero_grad()


def check_output_layer_is_not_updated_twice():
    """Reentrant checkpoints make gradients in parts; one can be of the first block's output."""
    case, parts = Case(), []
    apply(case)
    case.model.layers[0].register_forward_hook(lambda _, inputs, result: parts.append(
        torch.utils.checkpoint.checkpoint(case.model.head, result[1], use_reentrant=True).square().mean()))
    try:
        (case.loss() + parts[0]).backward()
        raise AssertionError("trained with a part of the gradient")
    except mp.PlanError as error:
        assert "in several parts" in str(error), error


def check_side_outputs():
    """Backward may use a block's parameters before it comes to the block: for another result, or to recompute a later
    block from the first one's input."""
    class Side(Block):
        def forward(self, first, x):
            first, y = super().forward(first, x)
            self.side = self.norm(self.spare(x.detach())).square().mean()
            return first, y

    def train(plan=None):
        case = Case()
        for layer in case.model.layers:
            layer.__class__ = Side
        if plan:
            apply(case, plan)
        seen = []
        for _ in range(3):
            loss = case.loss() + sum(layer.side for layer in case.model.layers)
            loss.backward()
            case.optimizer.step()
            case.optimizer.zero_grad()
            seen.append(loss.item())
        return seen, case.state()

    with mock.patch.object(mp, "Streams", LateStreams):
        for plan in (ALL, plan_of(kept="")):
            assert same(train(plan), train())


def check_states_are_loaded():
    """A state_dict with waiting updates, loaded under the plan or before it, goes on as without one."""
    for options in ({}, {"clip": 0.5, "accumulate": 2}, {"kind": "SGD"}):
        plain, first = Case(**options), Case(**options)
        run = apply(first)
        assert first.train(3) == plain.train(3)
        saved = copy.deepcopy(first.state())
        assert same(saved, plain.state())
        first.train(2)
        wanted = plain.train(3)
        for early in (False, True):
            case = first if early else Case(**options)
            if not early:
                apply(case)
                case.train(1)
                case.optimizer.zero_grad()
            for target, state in zip((case.model, case.optimizer), copy.deepcopy(saved)):
                target.load_state_dict(state)
            assert same(case.state(), saved), (options, early)
            case.scheduler.last_epoch, case.step_index = 3, 3 * case.accumulate
            assert case.train(3) == wanted, (options, early)
            assert same(case.state(), plain.state()), (options, early)
            assert is_offloaded(case.model.layers[0].up.weight)
        before = Case(**options)
        for target, state in zip((before.model, before.optimizer), copy.deepcopy(saved)):
            target.load_state_dict(state)
        before.scheduler.last_epoch, before.step_index = 3, 3 * before.accumulate
        apply(before)
        assert before.train(3) == wanted, options
        run.remove()


def check_gradients_that_are_not_used():
    """zero_grad without a step drops gradients, of micro-batches too. A removed plan leaves them."""
    for drop in ("model", "optimizer"):
        plain, case = Case(accumulate=2), Case(accumulate=2)
        run = apply(case)
        for each in (plain, case):
            each.loss().backward()
            getattr(each, drop).zero_grad()
        assert case.train(3) == plain.train(3)
        for each in (plain, case):
            each.loss().backward()
        run.remove()
        assert same([p.grad for p in case.model.parameters()], [p.grad for p in plain.model.parameters()])


def check_clipping():
    """Of all gradients at once, several times, and of other models as ever."""
    plain, case, other = Case(clip=0.5), Case(clip=0.5), Case()
    apply(case)
    other.loss().backward()
    wanted = torch.stack([p.grad.norm() for p in other.model.parameters() if p.grad is not None]).norm()
    norms = []
    for each in (plain, case):
        each.loss().backward()
        norms.append([nn.utils.clip_grad_norm_(each.model.parameters(), clip).item() for clip in (0.5, 0.25, 1e9)])
        each.optimizer.step()
        each.optimizer.zero_grad()
    assert all(abs(a - b) < 1e-5 * a for a, b in zip(*norms)), norms
    for a, b in zip(case.model.state_dict().values(), plain.model.state_dict().values()):
        assert torch.allclose(a, b, rtol=0, atol=1e-6)
    case.loss().backward()
    assert torch.allclose(nn.utils.clip_grad_norm_(other.model.parameters(), 1e9), wanted)
    refused(lambda: nn.utils.clip_grad_norm_(case.model.layers.parameters(), 1), "the 2-norm of all gradients")
    refused(lambda: nn.utils.clip_grad_norm_(case.model.head.parameters(), 1), "the 2-norm of all gradients")
    refused(lambda: nn.utils.clip_grad_norm_(case.model.parameters(), 1, norm_type=1), "the 2-norm of all gradients")
    refused(lambda: nn.utils.clip_grad_value_(case.model.parameters(), 1), "the 2-norm of all gradients")
    with torch.no_grad():
        case.model.norm.weight.grad.fill_(float("inf"))
    try:
        nn.utils.clip_grad_norm_(case.model.parameters(), 1, error_if_nonfinite=True)
        assert False
    except RuntimeError as error:
        assert "not finite" in str(error)


def refused(call, words):
    try:
        call()
    except mp.PlanError as error:
        assert words in str(error), error
        return
    assert False, f"nothing said: {words}"


def check_refusals():
    case = Case()
    hooked, paged = Case(), Case()
    hooked.optimizer.register_step_post_hook(lambda *_: None)
    paged.optimizer.is_paged = True
    refused(lambda: apply(hooked), "hooks that run before or after its step")
    refused(lambda: apply(paged), "cannot run torch.optim.adamw.AdamW block by block")
    for kind in (torch.optim.LBFGS, type("Mine", (torch.optim.AdamW,), {"__module__": "mine"})):
        unknown = kind(case.model.parameters())
        refused(lambda: mp.apply(case.model, unknown), f"{kind.__name__} block by block: it knows Adadelta")
    with mock.patch.object(torch.distributed, "is_initialized", lambda: True), \
            mock.patch.object(torch.distributed, "get_world_size", lambda: 2):
        refused(lambda: apply(case), "this training has 2 ranks")
    shared = Case()
    shared.model.layers[2] = shared.model.layers[1]
    refused(lambda: apply(shared), "block 1 has no parameters of its own")
    wrapped = mock.Mock(optimizer=case.optimizer, scaler=object())
    refused(lambda: mp.apply(case.model, wrapped), "a gradient scaler")
    assert not any(map(is_offloaded, case.model.parameters()))

    run = apply(case)
    with torch.autocast("cpu", dtype=torch.float16):
        refused(lambda: case.model(torch.arange(16)[None]), "a gradient scaler")
    refused(lambda: copy.deepcopy(case.model), "before the model is copied")
    refused(lambda: copy.deepcopy(case.model.layers), "before the model is copied")
    refused(lambda: case.model.load_state_dict(case.model.state_dict(), assign=True), "assign=True")
    refused(lambda: case.optimizer.step(lambda: None), "without a closure")
    case.clip = 0.5
    refused(lambda: case.train(1), "deferred=True")
    case.clip, case.accumulate = 0, 2
    run.remove()
    case.optimizer.zero_grad()
    run = apply(case, deferred=False)
    refused(lambda: case.train(1), "deferred=True")


def check_a_failed_backward():
    plain, case = Case(accumulate=2), Case(accumulate=2)
    apply(case)
    for each in (plain, case):
        x = each.loss()
        hook = each.model.layers[1].down.weight.register_hook(lambda _: 1 / 0)
        try:
            x.backward()
            assert False
        except ZeroDivisionError:
            hook.remove()
        each.optimizer.zero_grad()
    assert case.train(3) == plain.train(3)


def check_a_device_without_room():
    """Without room on the device, remove() leaves tensors in host memory."""
    plain, case = Case(), Case()
    run = apply(case)
    assert case.train(3) == plain.train(3)
    lacking = [case.model.layers[0].up.weight, case.model.layers[2].up.weight]
    for row in (run.states.places[p][0] for p in lacking):
        row.load = mock.Mock(side_effect=torch.OutOfMemoryError)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.remove()  # all are on one device here
    assert same(case.state(), plain.state())
    assert case.train(2) == plain.train(2)


def check_a_model_on_the_cpu():
    """apply() moves it to the GPU, if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for options in ({}, {"clip": 0.5}):
        plain, case = Case(**options), Case(**options)
        plain.model.to(device)
        plain.device = case.device = device
        run = apply(case, device=device)
        assert {p.device for p in case.model.parameters()} == {p.device for p in plain.model.parameters()}
        assert case.train(4) == plain.train(4)
        assert same(case.state(), plain.state())
        run.remove()
        assert case.train(1) == plain.train(1)


def check_trainer():
    """Transformers' Trainer: clipping, accumulation, saves, and training that resumes from them with and without it."""
    from transformers import Trainer, TrainingArguments
    examples = [{"input_ids": t, "labels": t} for t in plans.tokens(32)]
    mp.PLAN = plans.data(2, "recompute recompute", "model.layers", states={
        "parameters": [0, 1], "moments": [0, 1], "outside": 1, "deferred": 0})

    def train(folder, planned, resume=None, **options):
        model = llama(2)
        trainer = Trainer(model, TrainingArguments(
            folder, max_steps=4, per_device_train_batch_size=2, logging_steps=1, report_to=[], use_cpu=True,
            save_steps=2, disable_tqdm=True, warmup_steps=2, lr_scheduler_type="constant_with_warmup",
            eval_strategy="steps", eval_steps=2, **options), train_dataset=examples, eval_dataset=examples,
            callbacks=[mp.PlanCallback()] if planned else [])
        trainer.train(resume_from_checkpoint=resume and os.path.join(resume, "checkpoint-2"))
        return [[{key: e.get(key) for key in ("loss", "eval_loss", "grad_norm")} for e in trainer.state.log_history
                 if "train_runtime" not in e], list(model.state_dict().values())]

    for options in ({"max_grad_norm": 0}, {"gradient_accumulation_steps": 2, "load_best_model_at_end": True}):
        with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as planned:
            wanted = train(plain, False, **options)
            assert same(train(planned, True, **options), wanted), options
            for folder, plan in ((planned, False), (plain, True)) if len(options) > 1 or plans.NIGHT else ():
                with tempfile.TemporaryDirectory() as other:
                    assert same(train(other, plan, resume=folder, **options), wanted), (options, plan)


if __name__ == "__main__":
    plans.run_checks(globals())
