#!/usr/bin/env python3
"""Tests that the stamp differs for other arithmetic, because references stored for it would fail bitwise
comparisons."""
import os
import tempfile
import unittest

from arithmetic import VARIABLES, arithmetic


class Arithmetic(unittest.TestCase):
    def test_the_stamp_is_the_same_if_nothing_changed(self):
        self.assertEqual(arithmetic({}), arithmetic({"HOME": "/"}))
        self.assertEqual(arithmetic(), arithmetic())

    def test_each_variable_and_each_processor_has_its_own_stamp(self):
        kinds = {arithmetic({})} | {arithmetic({name: "2"}) for name in VARIABLES}
        self.assertEqual(len(kinds), 1 + len(VARIABLES))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cpuinfo")
            for flags in ("avx2", "avx2 avx512f"):
                with open(path, "w") as file:
                    file.write(f"processor: 0\nflags: {flags}\nprocessor: 1\nflags: {flags}\n")
                kinds.add(arithmetic({}, path))
        self.assertEqual(len(kinds), 3 + len(VARIABLES))


if __name__ == "__main__":
    unittest.main()
