// What to make again of a block, at every price of memory: of all ways to have there what backward needs, those that
// minimise price x bytes kept + ms of reruns, from "bytes cost nothing" to "bytes are all that counts". Exact: each is
// a minimum cut, and together they are the lower convex hull of (bytes, ms).
#pragma once

#include <cstdint>
#include <vector>

#include "core/planner/block_graph.h"

namespace memtune::planner {

struct RecomputeSet {
  std::vector<bool> remade, kept;  // by memory of the block; neither: it is not needed
  int64_t bytes = 0;               // kept
  double ms = 0;                   // of reruns, each op once
};

// In order of bytes, the most first.
std::vector<RecomputeSet> recompute_sets(const BlockGraph& block);

}  // namespace memtune::planner
