"""Tests the steps, passes and model parts that the shim records, under every way to run blocks in PyTorch.

    python3 timeline_test.py SHIM_FOLDER [unittest arguments]

Needs torch.
"""
import copy
import gc
import json
import os
import pickle
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, hidden, mask=None):
        return (hidden + self.down(torch.relu(self.up(hidden))),)


class Model(torch.nn.Module):
    """`way`: how blocks are run: "plain", "keyword", or checkpointed: "reentrant" or "not reentrant"."""

    def __init__(self, way="plain"):
        super().__init__()
        self.way = way
        self.embedding, self.head = torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
        self.layers = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, data):
        hidden = self.embedding(data)
        for block in self.layers:
            if self.way == "keyword":
                (hidden,) = block(hidden=hidden, mask=None)
            elif self.way == "plain":
                (hidden,) = block(hidden)
            else:
                (hidden,) = checkpoint(block, hidden, use_reentrant=self.way == "reentrant")
        return self.head(hidden).square().mean()


FORWARD = ["before_blocks", "block 0", "block 1", "block 2", "head"]
BACKWARD = ["head backward", "block 2 backward", "block 1 backward", "block 0 backward", "before_blocks backward"]


class PlayedEvent:
    """A fake CUDA event with the host's clock."""

    made = 0

    def __init__(self, enable_timing):
        PlayedEvent.made += 1

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


class TimelineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="memtune-timeline-")
        self.addCleanup(folder.cleanup)
        os.environ.update(MEMTUNE_ATTACH=folder.name, MEMTUNE_ATTACH_STEPS="0+1+2", MEMTUNE_ATTACH_CUPTI="")
        self.folder = Path(folder.name)
        self.training = memtune_training.Training()
        gc.collect()  # frees the models of earlier cases

    def step(self, optimizer, *losses):
        """Runs a step and reports it like sitecustomize.py."""
        for loss in losses:
            value = loss()
            self.training.begin_backward(value, None)
            value.backward()
            self.training.end_backward()
        self.training.begin_update()
        optimizer.step()
        self.training.end_update(optimizer)

    def train(self, model, *losses, optimizer=None):
        """Returns the trace of two steps, after two others."""
        optimizer = optimizer or torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)
        with self.assertRaises(SystemExit):
            for _ in range(5):
                self.step(optimizer, *losses)
                optimizer.zero_grad()
        records = [json.loads(line) for line in next(self.folder.glob("*.jsonl")).read_text().splitlines()]
        self.notes = [record["text"] for record in records if record["record"] == "note"]
        (trace,) = (record for record in records if record["record"] == "trace")
        return trace

    def parts(self, trace, step=0):
        """Names of a step's parts in order, without repetitions of neighbours."""
        steps = [region for region in trace["regions"] if region[0] == "step"]
        self.assertEqual(len(steps), 2)
        _, _, _, begin, end = steps[step]
        names, last = [], begin
        for kind, running, block, start, stop in sorted(trace["regions"], key=lambda region: region[3]):
            if kind in ("step", "phase") or not begin <= start < end:
                continue
            self.assertGreaterEqual(start, last, "parts overlap")
            last = stop
            name = (f"block {block}" if kind == "block" else kind) + ("" if running == "forward" else " " + running)
            if names[-1:] != [name]:
                names.append(name)
        return names

    def phases(self, trace):
        return [region[1] for region in sorted(trace["regions"], key=lambda each: each[3]) if region[0] == "phase"]

    def check(self, model, *expected, losses=1):
        data = torch.randn(5, 4)
        trace = self.train(model, *[lambda: model(data)] * losses)
        self.assertEqual(self.notes, [])
        for step in (0, 1):
            self.assertEqual(self.parts(trace, step), list(expected))
        return trace

    def test_blocks_are_recorded_with_their_names(self):
        trace = self.check(Model(), *FORWARD, *BACKWARD)
        self.assertEqual(trace["blocks"], ["layers.0", "layers.1", "layers.2"])
        self.assertEqual(self.phases(trace), ["forward", "backward", "optimizer"] * 2)

    def test_blocks_with_keyword_arguments(self):
        self.check(Model("keyword"), *FORWARD, *BACKWARD)

    def test_each_accumulated_batch_has_its_own_passes(self):
        trace = self.check(Model(), *FORWARD, *BACKWARD, *FORWARD, *BACKWARD, losses=2)
        self.assertEqual(self.phases(trace), ["forward", "backward", "forward", "backward", "optimizer"] * 2)

    def test_checkpointed_blocks_are_recomputed_within_their_backward(self):
        again = [name for block in (2, 1, 0) for name in (f"block {block} backward", f"block {block} recompute",
                                                          f"block {block} backward")]
        self.check(Model("not reentrant"), *FORWARD, "head backward", *again, "before_blocks backward")

    def test_checkpoint_wrappers_recompute_blocks_and_are_not_in_their_names(self):
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        model = Model()
        for block in range(3):
            model.layers[block] = checkpoint_wrapper(model.layers[block])
        again = [name for block in (2, 1, 0) for name in (f"block {block} backward", f"block {block} recompute",
                                                          f"block {block} backward")]
        trace = self.check(model, *FORWARD, "head backward", *again, "before_blocks backward")
        self.assertEqual(trace["blocks"], ["layers.0", "layers.1", "layers.2"])

    def test_reentrant_checkpoints_recompute_blocks_before_their_backward(self):
        trace = self.train(model := Model("reentrant"), lambda: model(torch.ones(5, 4)))
        blocks = [name for name in self.parts(trace) if name.startswith("block ") and name[-1:].isalpha()]
        self.assertEqual(blocks, [f"block {block} {running}" for block in (2, 1, 0) for running in ("recompute", "backward")])

    def test_an_optimizer_in_backward_ends_the_step_within_backward(self):
        model = Model()
        optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}

        def update(parameter):
            self.training.begin_update()
            optimizers[parameter].step()
            self.training.end_update(optimizers[parameter])

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(update)

        class Nothing:
            def step(self):
                pass

            zero_grad = step

        self.training.begin_update = lambda begin=self.training.begin_update: self.training.depth and begin()
        self.training.end_update = lambda one, end=self.training.end_update: self.training.depth and end(one)
        trace = self.train(model, lambda: model(torch.ones(5, 4)), optimizer=Nothing())
        self.assertNotIn("optimizer", self.phases(trace))
        self.assertEqual([region[0] for region in trace["regions"]].count("step"), 2)

    def test_frozen_blocks_have_no_backward(self):
        model = Model()
        for part in (model.embedding, model.layers[0]):
            part.requires_grad_(False)
        trace = self.train(model, lambda: model(torch.ones(5, 4)))
        self.assertEqual(self.parts(trace), [*FORWARD, *BACKWARD[:3]])

    def test_tracing_changes_no_result_and_leaves_no_hooks(self):
        data, models = torch.randn(5, 4), []
        for _ in range(2):
            torch.manual_seed(7)
            models.append(Model("not reentrant"))
        self.train(models[0], lambda: models[0](data))
        other = torch.optim.SGD(models[1].parameters(), lr=0.1)
        for _ in range(4):
            models[1](data).backward()
            other.step()
            other.zero_grad()
        for ours, plain in zip(models[0].parameters(), models[1].parameters()):
            self.assertTrue(torch.equal(ours, plain))
        for module in models[0].modules():
            self.assertFalse(module._forward_hooks or module._forward_pre_hooks or module._forward_hooks_always_called)

    def test_copies_of_the_model_run_and_record_nothing(self):
        model, copies = Model(), []

        def loss():
            copies.append(copy.deepcopy(model))
            copies.append(pickle.loads(pickle.dumps(model)))
            for each in copies[-2:]:
                each(torch.ones(5, 4)).backward()
            return model(torch.ones(5, 4))

        trace = self.train(model, loss)
        self.assertEqual(self.notes, [])
        self.assertEqual(self.parts(trace), [*FORWARD, *BACKWARD])

    def test_parts_are_those_of_the_trained_model_not_of_an_older_copy(self):
        kept = Model()
        kept.layers.append(Block())
        self.check(Model(), *FORWARD, *BACKWARD)
        self.assertFalse(any(module._forward_hooks for module in kept.modules()))

    def test_measured_steps_have_hooks_of_the_model_and_of_its_first_module(self):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.training.measured = 2
        self.training.created(optimizer)
        self.step(optimizer, lambda: model(torch.ones(5, 4)))
        self.assertIsNone(self.training.timeline)
        for kind in ("_forward_pre_hooks", "_forward_hooks"):
            self.assertEqual([each for each in model.modules() if getattr(each, kind)], [model, model.embedding])

    def test_wrappers_are_not_in_names_and_frozen_modules_get_no_hooks(self):
        class Wrapper(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module

            def forward(self, data):
                return self.module(data)

        class Sharded(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self._fsdp_wrapped_module = module

            def forward(self, data):
                return self._fsdp_wrapped_module(data)

        frozen = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(50))).requires_grad_(False)
        trace = self.check(Wrapper(Sharded(Model())), *FORWARD, *BACKWARD)
        self.assertEqual(trace["blocks"], ["layers.0", "layers.1", "layers.2"])
        self.assertFalse(any(module._forward_hooks for module in frozen.modules()))

    def test_a_dict_beside_the_blocks_hides_none_of_them(self):
        class Dict(Model):
            def __init__(self):
                super().__init__()
                h, self.layers = self.layers, None
                self.transformer = torch.nn.ModuleDict({"wte": torch.nn.Linear(4, 8), "wpe": torch.nn.Linear(4, 8), "h": h,
                                                        "norm": torch.nn.LayerNorm(8)})

            def forward(self, data):
                hidden = self.transformer.wte(data) + self.transformer.wpe(data)
                for block in self.transformer.h:
                    (hidden,) = block(hidden)
                return self.transformer.norm(hidden).square().mean()

        trace = self.check(Dict(), *FORWARD, *BACKWARD)
        self.assertEqual(trace["blocks"], ["transformer.h.0", "transformer.h.1", "transformer.h.2"])

    def test_every_list_that_runs_has_its_blocks_and_a_copy_has_none(self):
        class Two(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.ahead, self.decoder, self.encoder = torch.nn.Linear(4, 8), Model().layers, Model().layers
                self.ema = copy.deepcopy(self.encoder)

            def forward(self, data):
                hidden = self.ahead(data)
                for block in (*self.encoder, *self.decoder):
                    (hidden,) = block(hidden)
                return hidden.square().mean()

        order = [3, 4, 5, 0, 1, 2]  # the decoder is defined before the encoder
        trace = self.check(Two(), "before_blocks", *(f"block {block}" for block in order), "head", "head backward",
                           *(f"block {block} backward" for block in reversed(order)), "before_blocks backward")
        self.assertEqual(trace["blocks"], [f"{part}.{block}" for part in ("decoder", "encoder") for block in range(3)])

    def test_a_module_with_two_names_is_one_block(self):
        class Alias(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self._forward_module = self._original_module = Model()

            def forward(self, data):
                return self._forward_module(data)

        self.assertEqual(self.check(Alias(), *FORWARD, *BACKWARD)["blocks"], ["layers.0", "layers.1", "layers.2"])

    def test_two_trained_models_have_blocks_with_the_names_of_their_classes(self):
        class Judge(Model):
            pass

        judged, judge = Model(), Judge()
        optimizer = torch.optim.SGD([*judged.parameters(), *judge.parameters()], lr=0.1)
        trace = self.train(judged, lambda: judged(torch.ones(5, 4)) + judge(torch.ones(5, 4)), optimizer=optimizer)
        self.assertEqual(sorted(trace["blocks"]),
                         [f"{name}.layers.{block}" for name in ("Judge", "Model") for block in range(3)])

    def test_a_model_without_blocks_has_a_note(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
        trace = self.train(model, lambda: model(torch.ones(5, 4)).square().mean())
        self.assertEqual(trace["blocks"], [])
        self.assertEqual(self.notes, ["the model has no list of repeated modules: its timeline has no parts of it"])

    def test_a_compiled_model_has_no_parts_but_a_note(self):
        model = Model()
        model.layers[1].compile(backend="eager")
        self.addCleanup(lambda: torch._dynamo.utils.counters.clear())
        trace = self.train(model, lambda: model(torch.ones(5, 4)))
        self.assertEqual(trace["blocks"], [])
        self.assertEqual(self.phases(trace), ["forward", "backward", "optimizer"] * 2)
        self.assertEqual(len(self.notes), 1)
        self.assertIn("compiled", self.notes[0])

    def test_a_model_compiled_in_the_traced_steps_is_one_graph_without_hooks(self):
        model = Model()
        self.addCleanup(lambda: torch._dynamo.utils.counters.clear())

        def loss():
            if self.training.timeline is not None:
                torch.compile(model, backend="eager", fullgraph=True)(torch.ones(5, 4))
            return model(torch.ones(5, 4))

        trace = self.train(model, loss)
        self.assertEqual(self.notes, [])
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)
        self.assertEqual(self.parts(trace), [*FORWARD, *BACKWARD])

    def test_an_exception_in_a_block_reaches_only_the_script(self):
        model, calls = Model(), []
        plain = model.layers[1].forward

        def forward(hidden):
            calls.append(1)
            if len(calls) == 2:
                raise KeyError("the script's own")
            return plain(hidden)

        def loss():
            try:
                return model(torch.ones(5, 4))
            except KeyError:
                return model(torch.ones(5, 4))

        model.layers[1].forward = forward
        trace = self.train(model, loss)
        self.assertEqual(self.parts(trace, 1), [*FORWARD, *BACKWARD])
        self.assertEqual(self.notes, [])

    def test_an_error_in_a_hook_is_a_note_and_the_steps_are_recorded(self):
        model, broken = Model(), memtune_parts.first_differentiable
        self.addCleanup(setattr, memtune_parts, "first_differentiable", broken)
        memtune_parts.first_differentiable = lambda values: 1 // 0
        trace = self.train(model, lambda: model(torch.ones(5, 4)))
        self.assertEqual(len(self.notes), 1)
        self.assertIn("ZeroDivisionError", self.notes[0])
        self.assertEqual(self.phases(trace), ["forward", "backward", "optimizer"] * 2)
        self.assertFalse(any(module._forward_hooks for module in model.modules()))

    def test_times_match_the_clock_of_the_script(self):
        model, moments = Model(), []

        def loss():
            time.sleep(0.03)
            value = model(torch.ones(5, 4))
            moments.append(time.monotonic_ns())
            return value

        trace = self.train(model, loss)
        begins = [region[3] + trace["start_ns"] for region in trace["regions"] if region[1] == "backward" and region[0] == "phase"]
        for begin, moment in zip(begins, moments[2:], strict=True):
            self.assertTrue(-1_000_000 <= begin - moment < 20_000_000, begin - moment)  # the clocks are paired within 1 ms
        for region in trace["regions"]:
            if region[0] == "step":
                self.assertGreater(region[4] - region[3], 30_000_000)

    def test_moments_use_events_created_ahead_and_new_ones_on_another_device(self):
        device = 0
        with mock.patch.multiple("torch.cuda", Event=PlayedEvent, is_initialized=lambda: True, synchronize=lambda: None,
                                 is_current_stream_capturing=lambda: False, current_device=lambda: device):
            timeline = memtune_timeline.Timeline(self.training, True)
            made = PlayedEvent.made
            begin = timeline.moment()
            time.sleep(0.02)
            end = timeline.moment()
            self.assertEqual(PlayedEvent.made, made)
            self.assertIsNot(begin[1], end[1])
            self.assertAlmostEqual(timeline.ns_of(end) - timeline.ns_of(begin), (end[0] - begin[0]) * 1e9, delta=1e6)
            self.assertGreaterEqual(timeline.ns_of(begin), 0)
            device = 1
            timeline.moment()
            self.assertEqual(PlayedEvent.made, made + 1)
            device, timeline.events = 0, []
            timeline.moment()
            self.assertEqual(PlayedEvent.made, made + 2)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.path.insert(0, os.path.abspath(sys.argv.pop(1)))
    import memtune_parts
    import memtune_timeline
    import memtune_training
    unittest.main()
