// What to recompute in a block, at every price of memory. Finds the ways to provide what backward needs that minimise
// price x kept bytes + ms of recomputation. The price goes from 0 to infinity. Exact: each way is a minimum cut, and
// together they are the lower convex hull of (bytes, ms).
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/planner/block_recompute_graph.h"

namespace memtune::planner {

struct BlockRecomputeOption {
  std::vector<bool> recomputed, kept;  // by memory of the block; neither: not needed
  int64_t bytes = 0;                   // kept
  double ms = 0;                       // of recomputation, each op once
};

// Most bytes first.
std::vector<BlockRecomputeOption> recompute_sets(const BlockRecomputeGraph& block);

}  // namespace memtune::planner
