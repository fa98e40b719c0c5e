"""Tests the shim's notes about settings that PyTorch ignores.

    policies_test.py SHIM_FOLDER [unittest arguments]
"""
import functools
import sys
import types
import unittest


class Name:
    MUST_SAVE = MUST_CPU_OFFLOAD = PREFER_CPU_OFFLOAD = None


def saves(context, op):
    return Name.MUST_SAVE


def offloads(context, op):
    return [Name.MUST_CPU_OFFLOAD if each else Name.PREFER_CPU_OFFLOAD for each in (op,)][0]


class Policy:
    def __call__(self, context, op, more=0):
        return Name.MUST_CPU_OFFLOAD


class PoliciesTest(unittest.TestCase):
    def notes(self, release, *policies):
        module = types.SimpleNamespace(create_selective_checkpoint_contexts=lambda policy, more=0: (policy, more))
        notes = []
        memtune_policies.watch(module, release, notes.append)
        for policy in policies:
            self.assertEqual(module.create_selective_checkpoint_contexts(policy, more=3), (policy, 3))
        return notes

    def test_offload_policies_are_named_once_in_the_release_that_recomputes(self):
        told = ["MUST_CPU_OFFLOAD: PyTorch 2.15 recomputes these outputs and does not offload them",
                "PREFER_CPU_OFFLOAD: PyTorch 2.15 recomputes these outputs and does not offload them"]
        self.assertEqual(self.notes("2.15", offloads, offloads), told)
        self.assertEqual(self.notes("2.15", functools.partial(Policy(), more=1)), told[:1])

    def test_other_policies_and_releases_are_left_alone(self):
        self.assertEqual(self.notes("2.15", saves, ["aten.mm"], None), [])
        self.assertEqual(self.notes("2.11", offloads), [])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.path.insert(0, sys.argv.pop(1))
    import memtune_policies
    unittest.main()
