"""Tests the rows, tokens and positions that the shim counts in the batches of a DataLoader.

    batches_test.py SHIM_FOLDER [unittest arguments]

Needs torch.
"""
import os
import sys
import unittest

import torch


class BatchesTest(unittest.TestCase):
    def sizes(self, *batches):
        """Those of each backward, of a script that fetches all batches ahead of them."""
        fetch = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
        self.addCleanup(setattr, torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", fetch)
        counted = memtune_batches.Batches(torch.utils.data.dataloader, memtune_shares.Shares(None))
        loader = torch.utils.data.DataLoader(list(batches), batch_size=None)
        ahead = list(loader)
        for _ in ahead:
            counted.begin_backward()
        return self.of_step(counted)

    def of_step(self, counted):
        step = counted.of_step()
        self.assertGreaterEqual(step.pop("wait_ms"), 0)
        return step

    def tokens(self, **batch):
        found = self.sizes(batch)
        return found["tokens"][0], found["positions"][0]

    def test_each_backward_has_the_batch_that_it_uses(self):
        ids = [{"input_ids": torch.ones(rows, length, dtype=torch.int64)} for rows, length in ((2, 10), (3, 20), (1, 7))]
        self.assertEqual(self.sizes(*ids), {"batches": 3, "rows": [2, 3, 1], "tokens": [20, 60, 7], "positions": [20, 60, 7]})

    def test_backwards_may_share_a_batch(self):
        counted = memtune_batches.Batches.__new__(memtune_batches.Batches)
        counted.reset()
        counted.left(torch.ones(4, 3))
        for _ in range(3):
            counted.begin_backward()
        self.assertEqual(self.of_step(counted), {"batches": 1, "rows": [4] * 3, "tokens": [0] * 3, "positions": [0] * 3})

    def test_batches_that_no_backward_uses_are_bounded(self):
        counted = memtune_batches.Batches.__new__(memtune_batches.Batches)
        counted.reset()
        for _ in range(memtune_batches.MOST + 5):
            counted.left(torch.ones(4, 3))
        self.assertEqual(len(counted.waiting), memtune_batches.MOST)

    def test_padding_is_no_token_by_the_mask_or_by_the_labels(self):
        ids, mask = torch.ones(2, 5, dtype=torch.int64), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
        labels = torch.tensor([[-100, 1, 1, -100, -100], [1, 1, 1, 1, 1]])
        self.assertEqual(self.tokens(input_ids=ids), (10, 10))
        self.assertEqual(self.tokens(input_ids=ids, attention_mask=mask, labels=labels), (8, 10))
        self.assertEqual(self.tokens(input_ids=ids, attention_mask=mask.bool()), (8, 10))
        self.assertEqual(self.tokens(tokens=ids, labels=labels), (7, 10))

    def test_rows_of_packed_documents_have_no_padding(self):
        ids, labels = torch.ones(1, 5, dtype=torch.int64), torch.tensor([[-100, -100, 1, -100, 1]])
        for positions in ("position_ids", "input_pos"):
            self.assertEqual(self.tokens(input_ids=ids, labels=labels, **{positions: torch.arange(5)[None]}), (5, 5))

    def test_a_mask_of_another_shape_and_labels_without_a_loss_say_nothing(self):
        ids = torch.ones(2, 5, dtype=torch.int64)
        self.assertEqual(self.tokens(input_ids=ids, attention_mask=torch.ones(2, 1, 5, 5)), (10, 10))
        self.assertEqual(self.tokens(input_ids=ids, labels=torch.full((2, 5), -100)), (10, 10))

    def test_a_batch_of_an_unknown_kind_has_no_size(self):
        class Odd(dict):
            def __contains__(self, key):
                raise KeyError

        self.assertEqual(self.sizes(Odd())["rows"], [0])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.path.insert(0, os.path.abspath(sys.argv.pop(1)))
    import memtune_batches
    import memtune_shares
    unittest.main()
