// A training step as a chain of blocks, of which each has several ways to keep what its backward needs: what a choice
// of ways costs in time and memory, by the recurrences of forward, backward and one queue of copies each way.
//
// Forward, block after block: what moves leaves behind the block, first in first out, while later blocks run; its bytes
// stay on the device until they have left, and compute waits only where the budget would be broken. Backward, from the
// last block on: a block's bytes come back while the block behind it runs, and are there before it begins. What goes on
// to the disk is written meanwhile, and compute waits where more of it would lie in host memory than there is room for;
// it is read while the block behind runs, beside the copies back.
// (POFO: Beaumont, Eyraud-Dubois, Shilova, NeurIPS 2021, with several ways a block and a direction each.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace memtune::planner {

// One way to treat a block.
struct ChainOption {
  int64_t resident_bytes = 0;       // on the device between its forward and its backward
  int64_t moved_bytes = 0;          // that leave behind its forward and come back before its backward
  double recompute_ms = 0;          // more of its backward
  int64_t forward_peak_bytes = 0;   // at most while its forward runs, its own values included
  int64_t backward_peak_bytes = 0;  // at most while its backward runs, what came back included, beside the resident
                                    // bytes of the blocks before it
  int64_t disk_bytes = 0;           // of those that move: that go on to the disk
  int64_t host_bytes() const { return moved_bytes - disk_bytes; }
};

struct ChainBlock {
  double forward_ms = 0, backward_ms = 0;  // with everything kept
  std::vector<ChainOption> options;        // at least one
};

struct Chain {
  std::vector<ChainBlock> blocks;                        // in the order of the forward
  double out_bytes_per_ms = 0, in_bytes_per_ms = 0;      // of the link, beside compute; 0: nothing can move
  int64_t budget_bytes = 0;                              // of the device, for what the blocks hold
  int64_t host_budget_bytes = 0;                         // for what moves and stays there; 0: no limit
  double write_bytes_per_ms = 0, read_bytes_per_ms = 0;  // of the disk; 0: nothing can go there
  int64_t disk_budget_bytes = 0;                         // 0: no limit
  int64_t staging_bytes = 0;                             // of host memory, that wait to be written at most
};

struct ChainCost {
  bool fits = false;
  double ms = 0;  // of forward and backward of all blocks, waits included
  double forward_wait_ms = 0, backward_wait_ms = 0;
  int64_t peak_bytes = 0;  // as scheduled: at most the budget where it fits
};

// `choice`: an option a block.
ChainCost simulate(const Chain& chain, std::span<const int> choice);

}  // namespace memtune::planner
