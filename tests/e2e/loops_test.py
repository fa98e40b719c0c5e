"""memtune profile -- COMMAND on the training loops that libraries and papers have: what it tells is what they saw.

    python3 loops_test.py MEMTUNE [unittest arguments]

Needs torch, accelerate and pytorch_lightning.
"""
import unittest

import loops
from measured import Measured

STEPS = 10  # 2 of warm-up, 5 measured, 2 traced and one before them


class LoopsTest(Measured):
    def check(self, script):
        trial = self.trial(*self.script(script))
        self.assertEqual((trial["outcome"], trial["reason"]), ("ok", ""))
        told = self.seen("loss")  # it is ended before it tells the last
        self.assertGreaterEqual(len(told), STEPS - 1)
        self.assertEqual(trial["loss"][:len(told)], told)
        self.assertEqual(len(trial["loss"]), STEPS)
        at = self.seen("at_ms")
        own = [end - begin for begin, end in zip(at, at[1:])][1:]
        self.assertEqual(len(trial["step_ms"]["samples"]), 5)
        # In the last the script sees tracing begin. A process that waits for a processor between the two clocks has two
        # steps of another length; a step that is divided elsewhere is half or one and a half of its neighbours, always.
        apart = [abs(sample - ms) / ms for sample, ms in zip(trial["step_ms"]["samples"][:-1], own)]
        self.assertLess(sorted(apart)[1], 0.1, apart)
        self.assertTrue(0 < trial["optimizer_ms"] < trial["step_ms"]["median"])
        self.assertEqual((self.seen("ended"), self.seen("atexit")), ([True], [True]))

    def test_automatic_optimization_of_lightning(self):
        self.check(loops.LIGHTNING)

    def test_manual_optimization_of_lightning(self):
        self.check(loops.LIGHTNING_MANUAL)

    def test_a_loop_of_accelerate(self):
        self.check(loops.ACCELERATE)

    def test_a_scaler_under_autocast(self):
        self.check(loops.SCALER)

    def test_an_optimizer_in_backward(self):
        self.check(loops.IN_BACKWARD)

    def test_a_closure_that_is_called_several_times(self):
        self.check(loops.LBFGS)

    def test_two_optimizers_of_two_networks(self):
        self.check(loops.GAN)


if __name__ == "__main__":
    unittest.main()
