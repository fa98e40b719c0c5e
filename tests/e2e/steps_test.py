"""Tests how the shim separates steps, finds those that differ, reads losses and counts gradients.

    steps_test.py SHIM_FOLDER [unittest arguments]

Needs torch.
"""
import copy
import importlib.util
import json
import os
import pickle
import sys
import tempfile
import time
import types
import unittest

import torch

SCALE = torch.tensor(100.0)


def record(number, ms, runs=0, outside_ms=1.0, losses=1, skipped=False, warmup=2):
    return dict(step=number, phase="warmup" if number <= warmup else "measured", ms=ms, save_ms=0, outside_ms=outside_ms,
                without_gradients=runs, loss=[1.0] * losses, skipped=skipped)


class PeriodsTest(unittest.TestCase):
    def periods(self, steps, asked=5):
        periods = memtune_periods.Periods(asked)
        for number, step in enumerate(steps, 1):
            periods.add(record(number, **step), 1)
        return periods

    def test_equal_steps_have_no_period(self):
        noisy = [dict(ms=10 + i % 3, outside_ms=i) for i in range(20)]
        self.assertIsNone(self.periods(noisy).of_steps())
        self.assertEqual(self.periods(noisy[:7]).missing(), 0)

    def test_steps_that_run_the_model_without_gradients_come_again(self):
        steps = [dict(ms=300 if i % 4 == 2 else 10, runs=9 if i % 4 == 2 else 0) for i in range(20)]
        found = self.periods(steps)
        self.assertEqual(found.of_steps(), dict(steps=4, differing=[3, 7, 11, 15, 19]))
        self.assertEqual(found.missing(), 0)
        self.assertEqual(self.periods(steps[:7]).missing(), 3)  # two whole periods
        self.assertEqual(self.periods(steps[:6]).of_steps(), dict(steps=0, differing=[3]))

    def test_the_search_for_another_such_step_ends(self):
        steps = [dict(ms=300 if i == 3 else 10, runs=9 if i == 3 else 0) for i in range(60)]
        self.assertEqual(self.periods(steps[:7]).missing(), 2)
        self.assertEqual(self.periods(steps[:41]).missing(), 1)
        self.assertEqual(self.periods(steps[:42]).missing(), 0)
        late = self.periods(steps[:7])
        late.began, late.asked_s = late.began - 100, 1
        self.assertEqual(late.missing(), 0)

    def test_the_first_step_counts_although_its_time_is_not_known(self):
        steps = [dict(ms=None if i == 0 else 90 if i == 8 else 10, runs=100 if i % 8 == 0 else 0) for i in range(10)]
        self.assertEqual(self.periods(steps).of_steps(), dict(steps=8, differing=[1, 9]))
        self.assertEqual(self.periods(steps).missing(), 8)

    def test_long_steps_get_one_period(self):
        steps = [dict(ms=60000 if i % 4 == 2 else 9000, runs=9 if i % 4 == 2 else 0) for i in range(7)]
        self.assertEqual(self.periods(steps).missing(), 0)

    def test_irregular_steps_have_no_period(self):
        steps = [dict(ms=300 if i in (3, 5, 11) else 10, runs=9 if i in (3, 5, 11) else 0) for i in range(20)]
        self.assertEqual(self.periods(steps).of_steps(), dict(steps=0, differing=[4, 6, 12]))

    def test_time_outside_of_the_passes_counts_if_it_is_much(self):
        def steps(ms):
            return [dict(ms=10 + (ms if i % 3 == 0 else 0), outside_ms=ms if i % 3 == 0 else 0) for i in range(12)]

        self.assertIsNone(self.periods(steps(40)).of_steps())
        self.assertEqual(self.periods(steps(80)).of_steps()["steps"], 3)
        self.assertEqual(self.periods(steps(80)[:7]).missing(), 1)
        one = [dict(ms=90 if i == 4 else 10, outside_ms=80 if i == 4 else 0) for i in range(7)]
        self.assertEqual(self.periods(one).missing(), 0)  # chance, most likely
        self.assertEqual(self.periods(one).of_steps(), dict(steps=0, differing=[5]))

    def test_more_passes_count_and_a_skipped_update_does_not(self):
        more = [dict(ms=20 if i % 5 == 4 else 10, losses=2 if i % 5 == 4 else 1) for i in range(12)]
        self.assertEqual(self.periods(more).of_steps()["steps"], 5)
        skipped = [dict(ms=6 if i % 3 == 1 else 10, skipped=i % 3 == 1, losses=1 + (i % 3 == 1)) for i in range(12)]
        self.assertIsNone(self.periods(skipped).of_steps())


class LossTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.outputs, self.labels = torch.randn(8, 5, requires_grad=True), torch.randint(0, 5, (8,))
        self.mean = torch.nn.functional.cross_entropy(self.outputs, self.labels)
        self.sum = torch.nn.functional.cross_entropy(self.outputs, self.labels, reduction="sum")

    def unscaled(self, loss, before=None):
        value, unscaled = memtune_losses.Loss(loss, before).values()
        self.assertAlmostEqual(value, before if before is not None else loss.item(), 4)
        return unscaled / float(self.mean.detach())

    def test_factors_of_the_script_are_removed(self):
        for loss in (self.mean, self.mean / 4, 0.25 * self.mean, self.mean * SCALE, SCALE * self.mean, self.mean / 4 / 2,
                     self.sum / 8 * SCALE):
            self.assertAlmostEqual(self.unscaled(loss), 1, 5)

    def test_a_sum_over_its_terms_is_a_mean(self):
        for loss in (self.sum / 8, self.sum / torch.tensor(8), (self.sum + 0) / 8, self.sum.float().view(1).squeeze() / 8):
            self.assertAlmostEqual(self.unscaled(loss), 1, 5)

    def test_a_gradient_scaler_is_no_factor_of_the_script(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        half = self.mean / 2
        self.assertAlmostEqual(self.unscaled(scaler.scale(half), memtune_losses.reading(half)), 1, 5)

    def test_what_is_no_scalar_has_no_value(self):
        self.assertIsNone(memtune_losses.Loss(self.outputs * 2).values())


class Adapted(torch.nn.Module):
    """Frozen but for an adapter, which runs late and several times."""

    def __init__(self, seconds=0.02):
        super().__init__()
        self.seconds = seconds
        self.frozen, self.adapter = torch.nn.Embedding(9, 4).requires_grad_(False), torch.nn.Linear(4, 4)

    def forward(self, labels, input_ids):
        x = self.frozen(input_ids)
        if self.seconds > 0:
            time.sleep(self.seconds)
        for _ in range(3):
            x = self.adapter(x)
        return (x.mean((1, 2)) - labels).square().mean()


class TrainingTest(unittest.TestCase):
    """A Training whose hooks are called as the optimizers and autograd of a script would."""

    def begin(self, steps="1+3+0"):
        folder = tempfile.TemporaryDirectory(prefix="memtune-steps-")
        self.addCleanup(folder.cleanup)
        os.environ.update(MEMTUNE_ATTACH=folder.name, MEMTUNE_ATTACH_STEPS=steps)
        self.training = memtune_training.Training()
        return self.training

    def optimizer(self, module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
        self.training.created(optimizer)
        return optimizer

    def backward(self, loss):
        self.training.begin_backward(loss, None)
        loss.backward()
        self.training.end_backward()

    def update(self, optimizer):
        self.training.begin_update()
        optimizer.step()
        self.training.end_update(optimizer)

    def records(self, kind="step"):
        with open(os.path.join(self.training.folder, "%d.jsonl" % os.getpid())) as file:
            return [each for each in map(json.loads, file) if each["record"] == kind]

    def train(self, step, count=9):
        with self.assertRaises(SystemExit):
            for number in range(count):
                step(number)

    def test_the_last_of_several_optimizers_ends_a_step(self):
        self.begin()
        one, two = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
        first, second = self.optimizer(one), self.optimizer(two)

        def step(number):
            for module, optimizer, value in ((one, first, 1.0), (two, second, 2.0)):
                self.backward(module(torch.ones(3, 4)).sum() * 0 + number * 10 + value)
                self.update(optimizer)

        self.train(step)
        self.assertEqual([each["loss"] for each in self.records()], [[10 * i + 1, 10 * i + 2] for i in range(4)])
        self.assertEqual([each["rows"] for each in self.records()], [[3, 3]] * 4)
        self.assertIsNone(self.records()[0].get("ms"))
        self.assertGreater(min(each["ms"] for each in self.records()[1:]), 0)

    def test_optimizers_that_share_a_backward_make_one_step(self):
        self.begin()
        model = torch.nn.Linear(4, 1)
        both = [torch.optim.SGD([each], lr=0.0) for each in model.parameters()]

        def step(number):
            self.backward(model(torch.ones(3, 4)).sum() * 0 + number)
            for optimizer in both:
                self.update(optimizer)

        self.train(step)
        self.assertEqual([each["loss"] for each in self.records()], [[0], [1], [2], [3]])

    def test_an_optimizer_that_is_dropped_is_replaced(self):
        self.begin("1+5+0")
        model = torch.nn.Linear(4, 1)

        def step(number):
            optimizer = self.optimizer(model)
            self.backward(model(torch.ones(3, 4)).sum() * 0 + number)
            self.update(optimizer)

        self.train(step)
        self.assertEqual([each["loss"] for each in self.records()], [[i] for i in range(6)])

    def test_a_script_that_ends_after_its_first_step_has_a_record_of_it(self):
        self.begin()
        model = torch.nn.Linear(4, 1)
        optimizer = self.optimizer(model)
        self.backward(model(torch.ones(3, 4)).sum())
        self.update(optimizer)
        self.training.flush_held()
        self.assertEqual(len(self.records()), 1)

    def test_sizes_are_those_that_the_model_is_given(self):
        self.begin()
        model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 1))
        optimizer = self.optimizer(model)

        def step(number):
            with torch.no_grad():
                for _ in range(2):
                    model(torch.ones(50, 7, dtype=torch.int64))
            for rows in (2, 3):
                self.backward(model(torch.ones(rows, 5 + number, dtype=torch.int64)).sum())
            self.update(optimizer)

        self.train(step)
        last = self.records()[-1]
        self.assertEqual((last["rows"], last["tokens"], last["positions"]), ([2, 3], [16, 24], [16, 24]))
        self.assertEqual([each["without_gradients"] for each in self.records()], [2] * 4)
        self.assertTrue(all(0 < each["outside_ms"] < each["ms"] for each in self.records()[1:]))

    def test_a_period_is_measured_to_its_end(self):
        self.begin("2+5+0")
        model = torch.nn.Linear(4, 1)
        optimizer = self.optimizer(model)

        def step(number):
            if number % 4 == 3:
                with torch.no_grad():
                    for _ in range(9):
                        model(torch.ones(2, 4))
                time.sleep(0.2)
            self.backward(model(torch.ones(2, 4)).sum())
            self.update(optimizer)

        self.train(step, 40)
        self.assertEqual([each["phase"] for each in self.records()], ["warmup"] * 2 + ["measured"] * 8)
        self.assertEqual(self.records("period"), [dict(record="period", steps=4, differing=[4, 8])])

    def test_a_save_is_no_other_work(self):
        self.begin("1+5+0")
        model = torch.nn.Linear(4, 1)
        optimizer = self.optimizer(model)

        def step(number):
            if number in (2, 4):
                time.sleep(0.2)
                self.training.saved(0.2, 10)
            self.backward(model(torch.ones(2, 4)).sum())
            self.update(optimizer)

        self.train(step)
        self.assertEqual(self.records("period"), [])
        self.assertEqual([each["save_ms"] for each in self.records()], [0, 0, 200, 0, 200, 0])

    def test_parameters_without_a_gradient_are_named(self):
        self.begin()
        model = torch.nn.ModuleDict(dict(used=torch.nn.Linear(4, 1), unused=torch.nn.Linear(4, 1)))
        optimizer = self.optimizer(model)

        def step(number):
            self.backward(model["used"](torch.ones(2, 4)).sum())
            self.update(optimizer)

        self.train(step)
        self.assertEqual(self.records("gradients"), [dict(record="gradients", trained=4, without=2,
                                                          names=["unused.weight", "unused.bias"])])

    def test_the_forward_begins_where_the_script_calls_the_model(self):
        """Not at its first trained module, and not anew where a part of it runs again."""
        self.begin()
        model = Adapted()
        optimizer = self.optimizer(model)

        def step(number):
            with torch.no_grad():
                model(labels=torch.ones(2), input_ids=torch.ones(2, 9, dtype=torch.int64))
            self.backward(model(labels=torch.ones(2), input_ids=torch.ones(2, 5, dtype=torch.int64)))
            self.update(optimizer)

        self.train(step)
        for each in self.records()[1:]:
            self.assertGreater(each["shares"]["forward"], 20)
            self.assertGreater(each["shares"]["evaluation"], 20)
            self.assertLess(each["shares"]["rest"], 20)
            self.assertEqual((each["rows"], each["tokens"], each["without_gradients"]), ([2], [10], 1))
        self.assertEqual(self.training.forwards.usual, 1)

    def test_a_part_of_the_model_that_the_script_calls_is_a_run(self):
        self.begin()
        model = Adapted()
        self.optimizer(model)
        ids, forwards = torch.ones(2, 5, dtype=torch.int64), self.training.forwards
        model.adapter(model.frozen(ids))
        self.assertEqual((forwards.runs, forwards.given), (1, (2, 0, 0)))
        for calls in (2, 3):
            with self.assertRaises(TypeError):
                model(ids)
            self.assertEqual(forwards.runs, calls)
        self.backward(model.adapter(model.frozen(ids)).sum())  # the run that failed has not returned
        self.assertEqual((forwards.usual, forwards.last), (3, (2, 0, 0)))
        for calls in (1, 3):
            model.adapter(model.frozen(ids))
            self.assertEqual(forwards.runs, calls)
            model(torch.ones(2), ids)

    def test_sizes_are_those_of_a_part_if_the_model_is_given_no_tokens(self):
        class Wrapped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(9, 4)

            def forward(self, batch):
                return self.embedding(batch.ids).sum() + self.embedding(batch.ids[:1]).sum()

        self.begin()
        model = Wrapped()
        self.optimizer(model)
        self.backward(model(types.SimpleNamespace(ids=torch.ones(3, 5, dtype=torch.int64))))
        self.assertEqual(self.training.forwards.last, (3, 15, 15))

    def test_modules_around_blocks_are_watched_and_other_blocks_are_not(self):
        self.begin()
        blocks = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)) for _ in range(3)]
        inner, outer = torch.nn.Module(), torch.nn.Module()
        inner.layers, outer.model = torch.nn.ModuleList(blocks), inner
        outer.requires_grad_(False)
        blocks[1][1].bias.requires_grad_(True)
        self.optimizer(outer)
        self.assertEqual([each for each in outer.modules() if each._forward_hooks], [outer, inner, blocks[1][1]])

    def test_runs_at_places_that_a_backward_follows_are_of_the_training(self):
        self.begin()
        model, forwards = torch.nn.Linear(4, 1), self.training.forwards
        self.optimizer(model)

        def losses(count):
            return sum(model(torch.ones(2, 4)).sum() for _ in range(count))

        for count in (2, 3):
            losses(6)  # a validation
            self.backward(losses(count))
        for validations in (6, 12):
            losses(6)
            self.assertEqual((forwards.runs, forwards.unfollowed), (validations, validations))
        self.backward(losses(1))
        for count, unfollowed in ((1, 1), (8, 0)):  # from another place than above
            loss = losses(count)
            self.assertEqual((forwards.runs, forwards.unfollowed), (count, unfollowed))
            self.backward(loss)

    def test_a_compiled_model_is_one_graph_with_the_same_losses(self):
        def losses(watched, wrapped_first, count=3):
            torch.manual_seed(0)
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            model = Adapted(seconds=0)
            compiled = torch.compile(model, backend="eager", fullgraph=True) if wrapped_first else None
            optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)
            if watched:
                self.begin()
                self.training.created(optimizer)
            if not wrapped_first:
                compiled = torch.compile(model, backend="eager", fullgraph=True)
            found = []
            for _ in range(count):
                loss = compiled(labels=torch.ones(2), input_ids=torch.ones(2, 5, dtype=torch.int64))
                self.backward(loss) if watched else loss.backward()
                optimizer.step()
                found.append(loss.item())
            self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)
            return found

        self.addCleanup(lambda: torch._dynamo.utils.counters.clear())
        for wrapped_first, sizes in ((True, (2, 10, 10)), (False, (0, 0, 0))):
            self.assertEqual(losses(True, wrapped_first), losses(False, wrapped_first))
            self.assertEqual(self.training.forwards.last, sizes)
            self.assertFalse(self.training.forwards.over)

    def test_a_module_has_no_hooks_while_cuda_graphs_are_made_of_it(self):
        self.begin()
        model, hooks = torch.nn.Linear(4, 1), []
        self.optimizer(model)
        spec = importlib.util.spec_from_file_location("memtune_shim", os.path.join(sys.path[0], "sitecustomize.py"))
        shim = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(shim)
        shim.training = self.training
        cuda = types.SimpleNamespace(make_graphed_callables=lambda module: hooks.append(
            (len(module._forward_pre_hooks), len(module._forward_hooks))))
        shim.watch_graphs(cuda)
        cuda.make_graphed_callables(model)
        self.assertEqual((hooks, len(model._forward_pre_hooks), len(model._forward_hooks)), ([(0, 0)], 1, 1))
        self.training.detach()
        cuda.make_graphed_callables(model)
        self.assertEqual(len(model._forward_hooks), 0)

    def test_copies_and_files_of_a_watched_model_are_free_of_it(self):
        self.begin()
        model = torch.nn.Linear(4, 1)
        self.optimizer(model)
        other = pickle.loads(pickle.dumps(copy.deepcopy(model)))
        other(torch.ones(2, 4))
        self.assertIsNone(self.training.forwards.given)
        model(torch.ones(2, 4))
        self.assertEqual(self.training.forwards.given, (2, 0, 0))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.path.insert(0, os.path.abspath(sys.argv.pop(1)))
    import memtune_losses
    import memtune_periods
    import memtune_training
    unittest.main()
