// checkpoint:cheap: recompute what is cheap, keep what is dear. Which of the cheap values stay is a minimum cut: all
// that backward needs has to be there, or follow by cheap ops alone from what is there, and what is there shall be few
// bytes.
//
//   made by dear ops      through cheap ops          needed in backward
//      q ─────────────────▶ rotated q ─────────────────▶ attention      one of the two stays
//      k ─▶ rotated k ─▶ rotated k, repeated ──────────▶ attention      rotated k stays: fewest bytes, then fewest ops
//
// (as min_cut_rematerialization_partition of PyTorch's AOTAutograd does it). A value that leaves its block stays, so
// that no chain of reruns is longer than a block.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/draft.h"

namespace memtune::plan {

// In the blocks that are `covered`, of a program that was measured. Private values under `saved_min_bytes` stay in any
// case.
void place_cheap(const std::vector<bool>& covered, const config::ProgramFacts& facts, const MemoryGraph& graph,
                 int64_t saved_min_bytes, Draft& draft);

}  // namespace memtune::plan
