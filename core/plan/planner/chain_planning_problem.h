// A training step as a chain of blocks, each with several options for what its backward needs. simulate() computes time
// and memory of one option per block, with one queue of copies in each direction.
//
// Forward: offloaded bytes are copied out after their block, in order, while later blocks run. They stay on the device
// until they are copied, and compute waits only if the budget would be exceeded. Backward, from the last block on:
// bytes of a block are copied back while the block after it runs, before its own backward begins.
//
// Disk: bytes are written meanwhile. Compute waits if more of them would be in host memory than there is room for. They
// are read while the block after theirs runs, overlapped with the copies back.
//
// (POFO: Beaumont, Eyraud-Dubois, Shilova, NeurIPS 2021, with several options per block and one queue per direction.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace memtune::planner {

struct ChainBlockOptionCosts {
  int64_t resident_bytes = 0;      // on the device between its forward and its backward
  int64_t offloaded_bytes = 0;     // copied out after its forward and back before its backward
  double recompute_ms = 0;         // added to its backward
  int64_t forward_peak_bytes = 0;  // peak while its forward runs, its own values included
  // Peak while its backward runs, on top of the resident bytes of the blocks before it. Includes what was copied back.
  int64_t backward_peak_bytes = 0;
  int64_t disk_bytes = 0;  // part of moved_bytes that is written to disk
  int64_t host_bytes() const { return offloaded_bytes - disk_bytes; }
};

struct ChainBlockTimesAndOptions {
  double forward_ms = 0, backward_ms = 0;      // with everything kept
  std::vector<ChainBlockOptionCosts> options;  // at least one
};

struct ChainPlanningProblem {
  std::vector<ChainBlockTimesAndOptions> blocks;         // in the order of the forward
  double out_bytes_per_ms = 0, in_bytes_per_ms = 0;      // PCIe, while compute runs; 0: nothing can be offloaded
  int64_t budget_bytes = 0;                              // of the device, for what the blocks hold
  int64_t host_budget_bytes = 0;                         // for offloaded bytes that stay there; 0: no limit
  double write_bytes_per_ms = 0, read_bytes_per_ms = 0;  // disk bandwidth; 0: no disk
  int64_t disk_budget_bytes = 0;                         // 0: no limit
  int64_t staging_bytes = 0;                             // of host memory, for bytes that wait to be written
};

struct ChainSimulationResult {
  bool fits = false;
  double ms = 0;  // of forward and backward of all blocks, waits included
  double forward_wait_ms = 0, backward_wait_ms = 0;
  int64_t peak_bytes = 0;  // at most the budget if it fits
};

// `choice`: one option per block.
ChainSimulationResult simulate(const ChainPlanningProblem& chain, std::span<const int> choice);

}  // namespace memtune::planner
