"""Tests the lifetime of a model under a plan, and the memory of its steps."""
import copy
import gc
import threading
import warnings

import torch
from torch import nn

import plans
from plans import EVERY_PLAN, Decoder, applied, data, equal, step, tokens

mp = plans.load()
warnings.filterwarnings("ignore", message="memtune_plan: the blocks run none of")


def loss(model):
    return model(tokens())


def decoder(**options):
    torch.manual_seed(0)
    return Decoder(**options)


def check_copies_of_the_model():
    """A copy of the model, like that for averaged weights, runs without the plan."""
    other = decoder()
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1.5)
    wanted = step(other, loss)
    for module in (mp, plans.load(words=plans.COMPILED)):
        model = decoder()
        with applied(module, model, data(3, "recompute host")):
            copied = copy.deepcopy(model)
        copied.load_state_dict(other.state_dict())
        assert equal(step(copied, loss), wanted), module.apply
        with applied(mp, copied, data(3, "host host")) as run:
            assert equal(step(copied, loss), wanted)
            assert run.streams.moved_bytes > 0


def check_nothing_waits_for_the_collector():
    model = decoder()

    def tensors():
        return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())

    for others in EVERY_PLAN:
        with applied(mp, model, data(3, others)):
            for run in (lambda: step(model, loss), lambda: loss(model)):  # also without backward
                run()
                gc.collect()
                gc.disable()
                before = tensors()
                for _ in range(5):
                    run()
                after = tensors()
                gc.enable()
                assert after == before, (others, before, after)


def check_steps_of_many_lengths():
    """Host memory is that of the longest step, for any order of lengths. A set of buffers per length would be
    twenty."""
    model = decoder()
    lengths = [length for length in range(4, 44, 2)] + [40, 7, 32, 9]

    def free(run):
        return sum(count * len(buffers) for count, buffers in run.streams.free.items())

    with applied(mp, model, data(3, "host host", input="keep")) as run:
        step(model, lambda m: m(tokens(length=42)))
        longest = free(run)
    assert longest > 0
    plain = step(model, lambda m: m(tokens(length=32)))
    with applied(mp, model, data(3, "host host", input="keep")) as run:
        for length in lengths:
            found = step(model, lambda m: m(tokens(length=length)))
            if length == 32:
                assert equal(found, plain)
        assert longest <= free(run) < 1.5 * longest, (longest, free(run))
        assert all(run.streams.free.values())


class Noise(nn.Module):
    """Has its own random number generator."""

    def __init__(self):
        super().__init__()
        self.up, self.random = nn.Linear(8, 8), torch.Generator().manual_seed(1)

    def forward(self, x):
        kept = torch.empty_like(x).bernoulli_(0.5, generator=self.random)
        return (self.up(x) * kept).tanh() * torch.randn(x.shape, generator=self.random)


def check_random_numbers_of_others():
    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Sequential(*[Noise() for _ in range(3)]))

    x = torch.randn(4, 8)
    plain = step(model(), lambda m: m(x).sum())
    for others in EVERY_PLAN:
        fresh = model()
        with applied(mp, fresh, data(3, others, path="0")):
            assert equal(step(fresh, lambda m: m(x).sum()), plain), others


def check_moved_to_a_device():
    there = decoder(tied=False)
    plain, weights = step(there, loss), there.state_dict()
    with torch.device("meta"):
        model = decoder(tied=False)
    with applied(mp, model, data(3, "host host", input="keep")) as run:
        model.to_empty(device="cpu").load_state_dict(weights)
        assert equal(step(model, loss), plain)
        assert run.streams.moved_bytes > 0


def check_blocks_on_several_devices():
    model = decoder()
    model.layers[1].to("meta")
    with applied(mp, model, data(3, "host host")):
        try:
            loss(model)
        except mp.PlanError as error:
            assert str(error) == "the blocks are on cpu and meta: the plan is for one device"
        else:
            raise AssertionError("ran")


def check_several_threads():
    """Threads that run a model like nn.DataParallel get one error, and later steps are not affected."""
    model, errors = decoder(), []
    plain = step(model, loss)

    def forwards():
        try:
            for _ in range(50):
                loss(model)
        except mp.PlanError as error:
            errors.append(str(error))

    with applied(mp, model, data(3, "recompute host")):
        threads = [threading.Thread(target=forwards) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors and errors[0].startswith("several threads run the model at once, as nn.DataParallel does"), errors
        assert equal(step(model, loss), plain)
        other = []
        thread = threading.Thread(target=lambda: other.append(step(model, loss)))  # a single thread may be any
        thread.start()
        thread.join()
        assert equal(other[0], plain)


def check_compiled_around():
    """In a model that is compiled as a whole, blocks run eagerly under the plan."""
    model = decoder(p=0.0)
    plain = step(model, loss)
    with applied(mp, model, data(3, "host host")) as run:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        whole = torch.compile(model, backend="aot_eager")
        for _ in range(2):
            before = run.streams.moved_bytes
            assert equal(step(whole, loss), plain)
            assert run.streams.moved_bytes > before
        breaks = torch._dynamo.utils.counters["graph_break"]
        assert len(breaks) == 1 and "torch.compiler.disable" in next(iter(breaks)), breaks


def check_training_again():
    """An interrupted training never called the callback's end. The next one still works."""
    model = decoder()
    mp.PLAN = data(3, "host host")
    plain = step(model, loss)
    callback = mp.PlanCallback()
    for end in (False, True, True):
        callback.on_train_begin(None, None, None, model=model)
        assert equal(step(model, loss), plain)
        if end:
            callback.on_train_end(None, None, None)
    assert not any("forward" in block.__dict__ for block in model.layers)


if __name__ == "__main__":
    plans.run_checks(globals())
