"""Tests the Python plan under torch.compile, which chooses the compiler's budget and the offloaded activations
together. Without MEMTUNE_NIGHT only check_dropout runs generated code, and the longest checks are left out."""
import gc

import torch
from torch import nn

import plans
from plans import Decoder, applied, compiled_alone, data, equal, near, step

mp = plans.load(words=plans.COMPILED)


def compiled(model, left, hidden, steps=3, moving=True):
    """Runs steps of a compiled model under a plan. Returns results, saved bytes, bytes of these offloaded in the last
    step, and the number of blocks under the second budget."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    plan = data(4, "keep keep", compile={"left_bytes": left, "hidden_bytes": hidden})
    with applied(mp, model, plan) as run:
        results = []
        if not moving:
            plans.stay(mp, run)
        for _ in range(steps):
            before = run.streams.moved_bytes
            results.append(step(model, lambda m: m(plans.tokens())))
        saved, moved = sum(run.sizes.values()), run.streams.moved_bytes - before
        of = [sum(size for (owner, _), size in run.sizes.items() if owner == block) for block in range(4)]
        assert all((of[block] < 0.9 * of[0]) == (block in run.second) for block in range(1, 4)) or not moving, (of, run.second)
        assert counters["stats"]["unique_graphs"] == 1 + bool(run.second) and not counters["graph_break"], counters
        # Activations stay as far as the plan allows, except for a part of one.
        assert not moving or moved == 0 if saved <= left else \
            saved - left <= moved < saved - left + max(run.sizes.values())
    assert torch._functorch.config.activation_memory_budget == 1.0
    return results, saved, moved, len(run.second)


def check_compiled():
    """Gradients equal those of the same compiled model without offloading. Activations that take longer to wait for
    than to recompute are not saved."""
    model = Decoder(p=0.0, n=4)
    plain, most, moved, seconds = compiled(model, 1 << 30, 0)
    assert moved == seconds == 0
    results, saved, moved, seconds = compiled(model, 1 << 17, 1 << 30)
    assert saved == most and moved > 0 and seconds == 0 and all(equal(result, plain[0]) for result in results)
    assert compiled(model, 0, 1 << 14)[1] < compiled(model, 0, 1 << 17)[1] < most


@plans.at_night
@plans.with_kernels
def check_two_budgets():
    """Some blocks save less than the others. Gradients equal those of the same blocks without offloading."""
    model = Decoder(p=0.0, n=4)
    results, saved, moved, seconds = compiled(model, 120000, 1 << 14)
    assert 0 < seconds < 4 and saved > 120000 and moved > 0, (seconds, saved, moved)
    plain, _, stayed, others = compiled(model, 120000, 1 << 14, moving=False)
    assert stayed == 0 and others == seconds and all(equal(a, b) for a, b in zip(results, plain))


@plans.with_kernels
def check_dropout():
    """A mask that backward recomputes equals that of forward. Under a budget of torch.compile alone it would differ."""
    model = Decoder(p=0.5, n=4)

    def alone(budget):
        with compiled_alone(model.layers, budget):
            return step(model, lambda m: m(plans.tokens()))

    plain = alone(1.0)
    if plans.NIGHT:
        budget = alone(0.1)
        assert near(budget[:1], plain[:1]) and not near(budget, plain)
    torch._dynamo.reset()
    with applied(mp, model, data(4, "keep keep", compile={"left_bytes": 0, "hidden_bytes": 1 << 14})) as run:
        for _ in range(2):
            assert near(step(model, lambda m: m(plans.tokens())), plain)
        assert all(second < 0.9 for _, second in run.budgets.values()), run.budgets


class Dropping(nn.Module):
    """Only dropout could be recomputed. Its result and mask are one node of the compiler's graph."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return torch.atan(nn.functional.dropout(-8 * self.scale * (1 + torch.tanh(x)), 0.5, True)) + x


def check_nothing_but_draws():
    torch._dynamo.reset()
    model = nn.Module()
    model.layers = nn.ModuleList([Dropping() for _ in range(3)])
    x = torch.ones(())

    def loss(model):
        return model.layers[2](model.layers[1](model.layers[0](x)))

    plain = step(model, loss)
    with applied(mp, model, data(3, "keep keep", compile={"left_bytes": 0, "hidden_bytes": 64})):
        assert equal(step(model, loss), plain)


def check_what_draws():
    """Attention draws random numbers only with dropout, so it may be recomputed otherwise."""
    def count(*dropout):
        graph = torch.fx.Graph()
        graph.call_function(torch.ops.aten._scaled_dot_product_flash_attention.default, (*map(graph.placeholder, "qkv"), *dropout))
        graph.call_function(torch.ops.aten.add.Tensor, (graph.placeholder("a"), 1))
        return sum(map(mp.draws, graph.nodes))

    assert [count(), count(0.0), count(0.1)] == [0, 0, 1]


def check_choice_of_budgets():
    """The choice is the cheapest of all combinations, counted independently. Blocks that save less are evenly
    spread."""
    own = {1.0: [50, 30], 0.5: [50], 0.2: [20, 10], 0.1: [10]}
    again = {1.0: 0.0, 0.5: 0.12, 0.2: 0.15, 0.1: 0.2}
    found = {budget: mp.Partition(own[budget], [7], again[budget]) for budget in own}
    chosen = set()
    for left in range(0, 340, 20):
        for hidden in (1, 40, 80, 200):
            plan = data(4, "keep keep", compile={"left_bytes": left, "hidden_bytes": hidden}, stash_bytes=20, min_bytes=1)
            with applied(mp, Decoder(n=4), plan) as run:
                pair = run.choose_budgets(found)
                costs = {}
                for first in own:
                    for second in own:
                        for seconds in range(4 if second < first else 1 if second == first else 0):
                            budgets = [second if kind else first for kind in run.kinds(seconds)]
                            sizes = {(b, i): size for b, of in enumerate(budgets) for i, size in enumerate(own[of])}
                            waited = run.choose({**sizes, (0, -1): 7})[1]
                            costs[first, second, seconds] = sum(again[of] for of in budgets) / 4 + waited / hidden / 3
                seconds = len(run.second)
                assert abs(costs[(*pair, seconds)] - min(costs.values())) < 1e-12, (left, hidden, pair, seconds)
                assert list(run.second) == [block for block, kind in enumerate(run.kinds(seconds)) if kind]
                chosen.add((*pair, seconds))
    assert (1.0, 1.0, 0) in chosen and (1.0, 0.2, 2) in chosen and (0.1, 0.1, 0) in chosen, chosen
    run.blocks = [None] * 6
    assert [sum(run.kinds(n)) for n in range(6)] == list(range(6)) and not any(run.kinds(n)[0] for n in range(6))
    assert run.kinds(2) == [False, False, True, False, False, True]


def check_choice():
    """Offloads as much as necessary: equally from all blocks except the last, small activations first, and none with
    exposed copies unless necessary."""
    model = Decoder(p=0.0, n=4)
    plan = data(4, "keep keep", compile={"left_bytes": 0, "hidden_bytes": 400}, stash_bytes=100, min_bytes=1)
    with applied(mp, model, plan) as run:
        def choose(left, *sizes):
            run.plan["compile"]["left_bytes"] = left
            moves, waited = run.choose({(block, i): size for block in range(4) for i, size in enumerate(sizes)})
            return sorted(moves), waited

        every = [(block, i) for block in range(4) for i in range(2)]
        assert choose(240, 40, 20) == ([], 0)
        assert choose(130, 40, 20) == ([*every[:4], (2, 1)], 0)
        assert choose(60, 40, 20) == (every[:6], 0)
        assert choose(0, 40, 20) == (every, 60)
        assert choose(300, 90, 20) == ([(0, 0), (0, 1), (1, 1), (2, 1)], 0)
        assert choose(900, 150, 150) == ([(0, 0), (1, 0)], 0)
        assert choose(600, 150, 150)[1] == 300


class Masked(nn.Module):
    """Saves a mask that all blocks share. If it `breaks`, its second part is a separate graph."""

    def __init__(self, breaks):
        super().__init__()
        self.up, self.down, self.breaks = nn.Linear(16, 16), nn.Linear(16, 16), breaks

    def forward(self, x, mask):
        y = torch.tanh(self.up(x) * mask)
        if self.breaks:
            torch._dynamo.graph_break()
        return x + self.down((y + 1).exp())


class MaskedModel(nn.Module):
    def __init__(self, breaks):
        super().__init__()
        self.layers = nn.ModuleList([Masked(breaks) for _ in range(3)])

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask)
        return x.sum()


def check_counted_once():
    """The budget is chosen by the saved bytes. A mask counts once for all blocks, and every graph of a block counts."""
    for breaks in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = MaskedModel(breaks)
        x, mask = torch.randn(32, 16, requires_grad=True), torch.randn(32, 16)
        counts, choose = [], mp.Plan.choose
        mp.Plan.choose = lambda run, sizes: counts.append(sum(sizes.values())) or choose(run, sizes)
        try:
            with applied(mp, model, data(3, "keep keep", compile={"left_bytes": 1 << 30, "hidden_bytes": 0})) as run:
                step(model, lambda m: m(x, mask))
                assert max(counts) == sum(run.sizes.values()), (breaks, max(counts), run.sizes)
        finally:
            mp.Plan.choose = choose


def check_gathered_parameters():
    """FSDP2 gathers the parameters of a block when it runs. Tensors in their memory stay, and do not count."""
    with applied(mp, Decoder(p=0.0, n=3), data(3, "keep keep", compile={"left_bytes": 0, "hidden_bytes": 1})) as run:
        run.begin(0, [])
        up = run.blocks[0].up
        up.weight = nn.Parameter(up.weight.detach().clone())
        assert run.placed(up.weight.detach().t()).place == "keep" and not run.sizes
        assert run.placed(torch.ones(1 << 20)).place == "host" and list(run.sizes.values()) == [4 << 20]


@plans.at_night
def check_first_block_apart():
    """With a frozen embedding, the graph of the first block differs. The others decide how many get the second
    budget."""
    model = Decoder(p=0.0, n=8, tied=False)
    seconds = []
    for frozen in (False, True):
        model.emb.requires_grad_(not frozen)
        torch._dynamo.reset()
        with applied(mp, model, data(8, "keep keep", compile={"left_bytes": 250000, "hidden_bytes": 1 << 14})) as run:
            for _ in range(3):
                step(model, lambda m: m(plans.tokens()))
            seconds.append(len(run.second))
            assert 250000 < sum(run.sizes.values()) < 320000, sum(run.sizes.values())
    assert seconds[0] > 0 and abs(seconds[1] - seconds[0]) <= 1, seconds


@plans.at_night
def check_many_lengths():
    """Plans are applied and removed, with two lengths and evaluation. Each compiles, and the limit is restored."""
    torch._dynamo.reset()
    model, limit = Decoder(p=0.0, n=4), torch._dynamo.config.recompile_limit
    saved = []
    for _ in range(4):
        with applied(mp, model, data(4, "keep keep", compile={"left_bytes": 120000, "hidden_bytes": 1 << 14})) as run:
            for length in (16, 24):
                step(model, lambda m: m(plans.tokens(length=length)))
            with torch.no_grad():
                model(plans.tokens())
            saved.append(sum(run.sizes.values()))
            assert run.budgets
    assert max(saved) < 250000, saved  # not compiled: 620 KB
    assert torch._dynamo.config.recompile_limit == limit


def check_forward_that_fails():
    """A forward that fails does not affect the choice of offloaded activations."""
    model = Decoder(p=0.0, n=4)
    torch._dynamo.reset()
    with applied(mp, model, data(4, "keep keep", compile={"left_bytes": 1 << 17, "hidden_bytes": 1 << 30})) as run:
        first = step(model, lambda m: m(plans.tokens()))
        moves = set(run.moves)
        hook = model.layers[1].register_forward_hook(lambda *_: 1 / 0)
        try:
            model(plans.tokens())
        except ZeroDivisionError:
            pass
        hook.remove()
        assert moves and run.moves == moves
        assert equal(step(model, lambda m: m(plans.tokens())), first) and run.moves == moves


class Judging(Masked):
    """The input of its first graph needs gradients, and the output has none."""

    def forward(self, x, mask):
        scale = (x > 0).float().mean()
        torch._dynamo.graph_break()
        return super().forward(x * scale, mask)


def check_graph_without_backward():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = MaskedModel(False)
    model.layers = nn.ModuleList([Judging(False) for _ in range(3)])
    x, mask = torch.randn(32, 16, requires_grad=True), torch.randn(32, 16)
    plain = step(model, lambda m: m(x, mask))
    with applied(mp, model, data(3, "keep keep")) as run:
        moving = step(model, lambda m: m(x, mask))
        assert len(run.budgets) == 1 and run.streams.moved_bytes > 0
    assert near(moving, plain)


def check_compiled_at_other_lengths():
    """The second length compiles for every length. Sizes of saved tensors are then symbolic."""
    model = Decoder(p=0.0, n=3)
    plan = data(3, "keep keep", compile={"left_bytes": 1 << 15, "hidden_bytes": 1 << 17})
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    with applied(mp, model, plan) as run:
        for length in (16, 24, 32, 40, 48, 56, 64, 72, 48):
            moving = step(model, lambda m: m(plans.tokens(length=length)))
        assert run.streams.moved_bytes > 0
    assert 1 < counters["stats"]["unique_graphs"] <= 4, counters  # PyTorch 2.15 compiles one more
    plain = step(model, lambda m: m(plans.tokens(length=48)))
    assert near(moving, plain)


@plans.at_night
@plans.with_kernels
def check_compiled_for_long():
    """With dropout and evaluation in between, memory does not grow."""
    model = Decoder(p=0.1, n=3)
    plan = data(3, "keep keep", compile={"left_bytes": 1 << 16, "hidden_bytes": 1 << 30})
    torch._dynamo.reset()
    with applied(mp, model, plan) as run:
        first = step(model, lambda m: m(plans.tokens()))
        for i in range(200):
            if i % 50 == 0:
                model.eval()
                with torch.no_grad():
                    model(plans.tokens())
                model.train()
            last = step(model, lambda m: m(plans.tokens()))
            if i % 20 != 9:
                continue  # iterating over all objects takes longer than a step
            gc.collect()
            held = (sum(t.untyped_storage().nbytes() for t in gc.get_objects() if type(t) is torch.Tensor),
                    sum(type(o) in (mp.Value, mp.View) for o in gc.get_objects()),
                    {count: len(buffers) for count, buffers in run.streams.free.items()})
            if i == 9:
                early = held
        assert held == early, (held, early)
        assert equal(first, last) and run.streams.moved_bytes > 0


if __name__ == "__main__":
    plans.run_checks(globals())
