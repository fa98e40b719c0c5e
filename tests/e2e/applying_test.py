"""Tests how the shim applies a Python plan in a process: to which model, and the message if it applies to none.

    python3 applying_test.py SHIM_FOLDER [unittest arguments]

Needs torch.
"""
import gc
import os
import pprint
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import torch

SHIM = os.path.abspath(sys.argv.pop(1))
sys.path[:0] = [SHIM, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python_plan")]
import plans
from memtune_applying import Applying
from plans import Decoder, data, equal, step, tokens

MODULES = torch.nn.modules.module


class Told:
    """The part of a Training that receives records about plans."""

    def __init__(self):
        self.over, self.records, self.notes = False, [], []

    def write(self, **record):
        self.records.append(record)

    def note(self, text):
        self.notes.append(text)


def loss(model):
    return model(tokens())


def decoder():
    torch.manual_seed(0)
    return Decoder()


class ApplyingTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()  # it holds the compiled model of another test, which would be found here
        gc.collect()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, warnings, "showwarning", warnings.showwarning)
        self.path = os.path.join(folder.name, "memtune_plan.py")
        self.applying = self.watching()

    def watching(self, **fields):
        text = plans.joined()
        begin, end = text.index("PLAN: dict"), text.index("# --- end of data")
        plan = pprint.pformat(data(3, "host host", input="keep", **fields), sort_dicts=False)
        with open(self.path, "w") as file:
            file.write(text[:begin] + "PLAN = " + plan + "\n" + text[end:])
        applying = Applying(Told(), self.path)
        applying.watch(MODULES)
        self.addCleanup(applying.handle.remove)
        return applying

    def refused(self, reason):
        with self.assertRaises(SystemExit) as ended:
            self.applying.check()
        self.assertEqual(ended.exception.code, 0)
        self.assertTrue(self.applying.training.over)
        (record,) = self.applying.training.records
        self.assertEqual((record["record"], record["applied"]), ("plan", False))
        self.assertIn(reason, record["reason"])

    def test_the_plan_is_applied_before_the_first_forward_with_gradients(self):
        plain = step(decoder(), loss)  # the plan is applied to this model too
        self.assertEqual(self.applying.training.records, [{"record": "plan", "applied": True}])
        self.applying.check()
        self.assertEqual(MODULES._global_forward_pre_hooks, {})
        other = self.watching()
        model = decoder()
        with torch.no_grad():
            loss(model)
        self.assertFalse(other.applied)
        self.assertTrue(equal(step(model, loss), plain))
        self.assertTrue(other.applied)

    def test_a_model_within_another_is_found(self):
        class Wrapped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = decoder()

            def forward(self, x):
                return self.inner(x)

        loss(Wrapped())
        self.assertTrue(self.applying.applied)

    def test_a_module_that_ran_before_the_model_is_skipped(self):
        small = torch.nn.Linear(2, 2)
        small(torch.ones(1, 2)).sum().backward()
        self.assertFalse(self.applying.applied)
        loss(decoder())
        self.assertTrue(self.applying.applied)

    def test_a_model_at_the_address_of_a_deleted_module_is_tried(self):
        model, gone = decoder(), torch.nn.Linear(2, 2)
        gone(torch.ones(1, 2))
        self.applying.known = {id(each): ref for each, ref in zip(model.modules(), [*self.applying.known.values()] * 99)}
        del gone
        loss(model)
        self.assertTrue(self.applying.applied)

    def test_a_model_with_another_number_of_blocks_is_refused(self):
        loss(Decoder(n=4))
        self.refused("the plan is for 3 blocks in 'layers'; in this model 'layers' has 4 of Block")

    def test_a_compiled_model_is_refused(self):
        model = decoder()
        model.compile(backend="eager")
        loss(model)
        self.refused("the model is compiled already")

    def test_a_model_with_its_own_gradient_checkpointing_is_refused(self):
        model = decoder()
        model.gradient_checkpointing = True
        loss(model)
        self.refused("gradient checkpointing is on")

    def test_data_parallel_is_refused(self):
        model = torch.nn.DataParallel(decoder())
        model(tokens())
        self.refused("torch.nn.DataParallel runs copies of the model")

    def test_an_update_without_a_forward_is_refused(self):
        with mock.patch("memtune_parts.find_models", return_value=[]):  # hides the models of other tests
            self.refused("no model was called with gradients before its first update")

    def test_a_damaged_file_is_refused(self):
        with open(self.path, "w") as file:
            file.write("apply = (")
        loss(decoder())
        self.refused("SyntaxError")

    def test_parts_of_the_plan_that_are_not_applied_become_notes(self):
        self.applying.handle.remove()
        self.applying = self.watching(ops={"recompute keep": "attn/nothing#0"})
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            self.applying.load()
            loss(decoder())
        (note,) = self.applying.training.notes
        self.assertIn("the blocks run none of attn/nothing#0", note)


if __name__ == "__main__":
    unittest.main()
