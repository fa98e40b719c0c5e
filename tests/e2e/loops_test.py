"""Tests memtune profile -- COMMAND on training loops of libraries and papers. Its figures must equal those of their
logs.

    python3 loops_test.py MEMTUNE [unittest arguments]

Needs torch, accelerate and pytorch_lightning.
"""
import unittest

import loops
from measured import Measured

STEPS = 10  # 2 of warm-up, 5 measured, 1 before the traced steps, 2 traced


class LoopsTest(Measured):
    def check(self, script):
        trial = self.trial(*self.script(script))
        self.assertEqual((trial["outcome"], trial["reason"]), ("ok", ""))
        told = self.seen("loss")  # the script ends before it logs the last one
        self.assertGreaterEqual(len(told), STEPS - 1)
        self.assertEqual(trial["loss"][:len(told)], told)
        self.assertEqual(len(trial["loss"]), STEPS)
        at = self.seen("at_ms")
        own = [end - begin for begin, end in zip(at, at[1:])][1:]
        self.assertEqual(len(trial["step_ms"]["samples"]), 5)
        # The script's last interval includes the start of tracing. If a process waits for a processor between the two
        # clocks, two steps differ. If steps were separated at a wrong place, all would differ by a half.
        apart = [abs(sample - ms) / ms for sample, ms in zip(trial["step_ms"]["samples"][:-1], own)]
        self.assertLess(sorted(apart)[1], 0.1, apart)
        self.assertTrue(0 < trial["optimizer_ms"] < trial["step_ms"]["median"])
        self.assertEqual((self.seen("ended"), self.seen("atexit")), ([True], [True]))

    def test_lightning_with_automatic_optimization(self):
        self.check(loops.LIGHTNING)

    def test_lightning_with_manual_optimization(self):
        self.check(loops.LIGHTNING_MANUAL)

    def test_accelerate_loop(self):
        self.check(loops.ACCELERATE)

    def test_gradient_scaler_under_autocast(self):
        self.check(loops.SCALER)

    def test_optimizer_in_backward(self):
        self.check(loops.IN_BACKWARD)

    def test_closure_that_is_called_several_times(self):
        self.check(loops.LBFGS)

    def test_two_networks_with_an_optimizer_each(self):
        self.check(loops.GAN)


if __name__ == "__main__":
    unittest.main()
