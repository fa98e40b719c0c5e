"""Tests operators of other libraries. --library loads them, and without it the message names the flag.

    python3 library_test.py MEMTUNE OPERATORS.so [unittest arguments]

OPERATORS.so is built from operator_library.cpp. Needs torch, to trace a model that uses it.
"""

import os
import sys
import unittest

import torch

import tool_test

LIBRARY = ""
INPUT = ("--loss", "mse", "--input", "x:float32[4,64]")


class Cubes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.ops.memtune_tests.cube(torch.sigmoid(layer(x)))
        return x


class Library(tool_test.ToolTest):
    def setUp(self):
        super().setUp()
        torch.ops.load_library(LIBRARY)
        torch.jit.trace(Cubes(), (torch.ones(2, 64),)).save(str(self.folder / "cubes.pt"))

    def test_a_traced_model_trains_with_operators_of_a_library(self):
        strategies = ("none", "checkpoint:full", "offload:sync,min=0")
        answer = self.sweep("--model", "cubes.pt", *INPUT, "--library", LIBRARY, "--steps", "1", "--strategy",
                            ";".join(strategies))
        trials = {trial["strategy"]: trial for trial in answer["trials"]}
        self.assertEqual(set(trials), set(strategies))
        self.assertTrue(all(trial["outcome"] == "ok" and trial["gradients"]["equal"] for trial in trials.values()), trials)
        self.assertGreater(trials["offload:sync,min=0"]["transfer"]["out_bytes"], 0)

    def test_without_the_library_the_message_names_the_operator_and_the_flag(self):
        self.refuses("memtune_tests::cube", "sweep", "--device", "cpu", "--model", "cubes.pt", *INPUT)
        self.refuses("come with --library FILE.so", "sweep", "--device", "cpu", "--model", "cubes.pt", *INPUT)

    def test_a_library_that_cannot_be_loaded_is_an_error(self):
        (self.folder / "text.so").write_text("this is no library\n" * 100)
        (self.folder / "empty.so").touch()
        for file, said in (("absent.so", "--library: no such file: absent.so"), ("text.so", "text.so: invalid ELF header"),
                           ("empty.so", "empty.so: file too short")):
            self.refuses(said, "sweep", "--device", "cpu", "--model", "cubes.pt", *INPUT, "--library", file)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool_test.MEMTUNE, LIBRARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
