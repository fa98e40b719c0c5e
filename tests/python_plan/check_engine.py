"""Tests the engine of the Python plan on models of every kind. Gradients equal those without a plan, bit for bit."""
import gc
import warnings

import torch
from torch import nn

import plans
from plans import EVERY_PLAN, Decoder, applied, data, equal, step

mp = plans.load()
warnings.filterwarnings("ignore", message="memtune_plan: the blocks run none of")


def loss(model):
    return model(plans.tokens())


def check_bits_under_every_plan():
    model = Decoder()
    plain = step(model, loss)
    for others in EVERY_PLAN:
        with applied(mp, model, data(3, others)):
            for _ in range(2):  # pinned memory is reused from the second step on
                assert equal(step(model, loss), plain), others
        assert equal(step(model, loss), plain), others + ": removed"


def check_file_without_moves():
    """The file that export writes if nothing is offloaded."""
    still, model = plans.load(words=plans.STILL), Decoder()
    plain = step(model, loss)
    for others in ("keep keep", "keep recompute", "recompute keep", "recompute recompute"):
        with applied(still, model, data(3, others)):
            assert equal(step(model, loss), plain), others
        with applied(still, model, data(3, others)), torch.autocast("cpu", dtype=torch.bfloat16):
            cast = step(model, loss)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert equal(step(model, loss), cast), others
    twin, x = nn.Sequential(Gate(), Gate()), torch.randn(3, 4)
    plain = step(twin, lambda m: m(x).sum())
    with applied(still, twin, data(2, "recompute recompute", path="")):
        assert equal(step(twin, lambda m: m(x).sum()), plain)


def check_single_functions():
    """Each function alone is recomputed or offloaded."""
    model = Decoder(n=2)
    plain = step(model, loss)
    names = ["/add#0", "/add#1", "n1/layer_norm#0", "attn.qkv/linear#0", "attn/scaled_dot_product_attention#0",
             "attn/reshape#0", "drop/dropout#0", "up/linear#0", "/softmax#0", "/mul#0", "/sigmoid#0"]
    for name in names:
        for places in ("recompute recompute", "host host"):
            for others in ("keep keep", "recompute keep"):
                with applied(mp, model, data(2, others, ops={places: name})) as run:
                    assert equal(step(model, loss), plain), (name, places, others)
                    if name not in ("drop/dropout#0", "attn/reshape#0"):
                        assert name not in run.missing, name


def check_late_copies():
    """Copies run as late as possible."""
    before = mp.Streams
    mp.Streams = type("Late", (plans.LateStreams, before), {})
    try:
        model = Decoder(n=4)
        plain = step(model, loss)
        for others in EVERY_PLAN:
            for stash in (0, 1 << 30):
                with applied(mp, model, data(4, others, stash_bytes=stash)) as run:
                    for _ in range(3):
                        fails = model.layers[2].register_forward_pre_hook(lambda *_: 1 / 0)
                        try:
                            loss(model)
                        except ZeroDivisionError:  # copies of earlier blocks are in flight when the graph is freed
                            fails.remove()
                        assert equal(step(model, loss), plain), (others, stash)
                    assert run.streams.late > 0
    finally:
        mp.Streams = before


def check_between_steps():
    """Evaluation, a forward without gradients and exceptions have no effect on later steps."""
    model = Decoder()
    plain = step(model, loss)
    with applied(mp, model, data(3, "recompute host")):
        for _ in range(2):
            model.eval()
            with torch.no_grad():
                loss(model)
            loss(model)  # with a graph that never runs backward
            model.train()
            fails = model.layers[1].down.register_forward_hook(lambda *_: 1 / 0)
            for _ in range(2):
                try:
                    loss(model)
                    raise AssertionError("the hook did not fail")
                except ZeroDivisionError:
                    pass
            fails.remove()
            fails = model.layers[1].down.weight.register_hook(lambda *_: 1 / 0)
            try:
                loss(model).backward()
                raise AssertionError("the hook did not fail")
            except ZeroDivisionError:
                pass
            fails.remove()
            assert equal(step(model, loss), plain)


def check_accumulation():
    model = Decoder()

    def twice(model):
        first, second = loss(model), model(plans.tokens(seed=1))  # two forwards before the first backward
        first.backward(retain_graph=True)
        first.backward()
        return second

    plain = step(model, twice)
    for others in EVERY_PLAN:
        with applied(mp, model, data(3, others)):
            assert equal(step(model, twice), plain), others


def check_frozen():
    model = Decoder()
    for name, p in model.named_parameters():
        p.requires_grad_("down" in name or "n1" in name)
    plain = step(model, loss)
    for others in EVERY_PLAN:
        with applied(mp, model, data(3, others)):
            assert equal(step(model, loss), plain), others


class ConvBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.na, self.b = nn.Conv2d(d, d, 3, padding=1), nn.BatchNorm2d(d), nn.Conv2d(d, d, 3, padding=1)

    def forward(self, x):
        return torch.relu_(self.b(torch.relu_(self.na(self.a(x)))) + x)


def check_convolutions():
    """Running statistics are updated once per step. The channels-last layout is preserved."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Sequential(*[ConvBlock(8) for _ in range(3)]))
    x = torch.randn(2, 3, 10, 10).to(memory_format=torch.channels_last)
    start = {k: v.clone() for k, v in model.state_dict().items()}

    def run(model):
        model.load_state_dict(start)
        return (model(x).square() * 0.5).sum()

    plain, state = step(model, run), {k: v.clone() for k, v in model.state_dict().items()}
    for others in EVERY_PLAN:
        with applied(mp, model, data(3, others, path="1")):
            assert equal(step(model, run), plain), others
            assert all(torch.equal(state[k], v) for k, v in model.state_dict().items()), others


def check_autocast():
    model = Decoder()

    def run(model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(model)

    plain = step(model, run)
    for others in EVERY_PLAN:
        with applied(mp, model, data(3, others)):
            assert equal(step(model, run), plain), others
    plain = around_backward(model)
    with applied(mp, model, data(3, "recompute recompute")):
        assert equal(around_backward(model), plain)


def check_casts():
    """Autocast's copy of an activation is treated like the activation, as in the trials."""
    model = Decoder(p=0.0)

    def run(model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(model)

    row = 2 * 16 * 32 * 2  # bytes of a hidden state in bfloat16
    norms = {"recompute keep": "n1/layer_norm#0 n2/layer_norm#0"}
    kept, left = [saved_bytes(model, "keep keep", run, ops=ops)[0] for ops in ({}, norms)]
    assert kept - left == 3 * 2 * row, ((kept - left) / row)
    plain = step(model, run)
    with applied(mp, model, data(3, "keep keep", ops=norms)):
        assert equal(step(model, run), plain)


def around_backward(model):
    """Runs only backward of a float32 forward under autocast, like a loop whose autocast covers too much."""
    torch.manual_seed(3)
    model.zero_grad(set_to_none=True)
    value = loss(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value.backward()
    return [p.grad.clone() for p in model.parameters()]


class Changed(torch.nn.Module):
    """Saves an activation and then overwrites it, so autograd refuses backward."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        for layer in self.layers:
            layer.forward = lambda x, inner=layer.forward: self.write(inner(x))

    @staticmethod
    def write(h):
        y = h.exp()
        y.mul_(2)
        return y

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def check_changed_in_place():
    """If autograd refuses backward, the plan either refuses it or gives the right result."""
    model, x = Changed(), torch.randn(3, 4)
    right = []
    for layer in model.layers:
        layer.forward = lambda x, w=layer: nn.functional.linear(x, w.weight, w.bias).exp() * 2
    right = step(model, lambda m: m(x))
    twin = Changed()
    twin.load_state_dict(model.state_dict())
    for others in ("keep keep", "recompute keep", "host keep"):
        with applied(mp, twin, data(2, others)):
            try:
                assert equal(step(twin, lambda m: m(x)), right), others
            except RuntimeError as error:
                assert "changed in place" in str(error) or "inplace operation" in str(error), error


class Gate(nn.Module):
    """Overwrites a tensor that another function has read, but not saved."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        h = self.up(x)
        gate = h.sigmoid()
        h.mul_(3)
        h[:, :2].add_(1)
        return self.down(gate * h)


def check_overwritten_inputs():
    model, x = nn.Sequential(Gate(), Gate()), torch.randn(3, 4)
    plain = step(model, lambda m: m(x).sum())
    for others in EVERY_PLAN:
        for places in ("keep keep", "host keep", "recompute keep"):
            ops = {"recompute keep": "/sigmoid#0", places: "up/linear#0 " + "/sigmoid#0" * (places[0] == "r")}
            for late in (False, True):
                before = mp.Streams
                mp.Streams = type("Late", (plans.LateStreams, before), {}) if late else before
                with applied(mp, model, data(2, others, path="", ops=ops)):
                    assert equal(step(model, lambda m: m(x).sum()), plain), (others, places)
                mp.Streams = before


def check_memory():
    """Memory does not grow: after 200 steps it is that of the tenth."""
    model = Decoder(p=0.0)

    def held(run):
        gc.collect()
        pinned = {count: len(buffers) for count, buffers in run.streams.free.items()}
        tensors = sum(t.untyped_storage().nbytes() for t in gc.get_objects() if type(t) is torch.Tensor)
        return pinned, tensors, sum(type(o) in (mp.Value, mp.View, mp.Node) for o in gc.get_objects())

    for others, steps in (("recompute host", 200), ("keep keep", 30), ("host recompute", 30)):
        with applied(mp, model, data(3, others)) as run:
            for i in range(steps):
                step(model, loss)
                if i == 9:
                    early = held(run)
            assert held(run) == early, (others, early, held(run))


def saved_bytes(model, others, run=loss, **options):
    """Bytes of saved activations on the device and in host memory at the end of forward, without parameters."""
    kept, pack = [], mp.Plan.pack
    mp.Plan.pack = lambda run, t: kept.append(saved := pack(run, t)) or saved
    with applied(mp, model, data(3, others, input="keep", stash_bytes=0, **options)):
        value = run(model)
        mp.Plan.pack = pack
        fixed = {p.untyped_storage()._cdata for p in model.parameters()}
        values = {id(s.value): s.value for s in kept}.values()
        storages = {v.kept.untyped_storage()._cdata: v.kept.untyped_storage() for v in values if v.kept is not None}
        return (sum(s.nbytes() for k, s in storages.items() if k not in fixed),
                sum(v.count for v in values if v.memory is not None), value)


def check_what_waits_where():
    model = Decoder(p=0.0)
    row = 2 * 16 * 32 * 4  # bytes of a hidden state
    kept, moved, _ = saved_bytes(model, "keep keep")
    assert moved == 0
    left, moved, _ = saved_bytes(model, "host host")
    assert left + moved == kept and left == row, (left, moved, kept)  # the output of the embedding, in no block
    # Full checkpoints keep the output of each block but the last, and the output of the embedding.
    left, moved, _ = saved_bytes(model, "recompute recompute", ops={"keep keep": "/add#2"})
    assert moved == 0 and left == 3 * row, left / row
    left, moved, _ = saved_bytes(model, "recompute recompute", ops={"host keep": "/add#2"})
    assert moved == 2 * row and left == row, (moved / row, left / row)


def check_wrong_models():
    def message(model, plan, **options):
        mp.PLAN = plan
        try:
            mp.apply(model, **options)
        except mp.PlanError as error:
            return str(error)
        raise AssertionError("it was applied")

    model = Decoder()
    assert "'layers' has 3 of Block" in message(model, data(4, "keep keep")), message(model, data(4, "keep keep"))
    count = sum(p.numel() for p in model.parameters())
    assert f"this one has {count}" in message(model, data(3, "keep keep", parameters=7))
    with applied(mp, model, data(3, "keep keep", parameters=count)):
        assert "already" in message(model, data(3, "keep keep"))
    with applied(mp, model, data(3, "keep keep", parameters=7), check=False):
        pass
    version, torch.__version__ = torch.__version__, "2.4.1"
    try:
        assert "this is 2.4.1" in message(model, data(3, "keep keep"))
    finally:
        torch.__version__ = version
    model.compile()
    assert "compiled already" in message(model, data(3, "keep keep"))
    model._compiled_call_impl = None
    model.gradient_checkpointing = True
    assert "gradient checkpointing is on" in message(model, data(3, "keep keep"))


def check_unknown_functions_are_told():
    model = Decoder()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with applied(mp, model, data(3, "keep keep", ops={"host keep": "n1/rms_norm#0 /add#0"})):
            step(model, loss)
    assert [str(w.message) for w in told if "n1/rms_norm#0" in str(w.message) and "/add#0" not in str(w.message)]


if __name__ == "__main__":
    plans.run_checks(globals())
