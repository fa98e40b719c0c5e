// checkpoint:cheap: recomputes activations that are cheap to recompute and keeps the others. A minimum cut decides
// which of the cheap ones are kept. Each activation that backward needs must be kept or follow from kept ones by cheap
// ops alone. The cut minimises the kept bytes.
//
//   by expensive ops      through cheap ops          needed in backward
//      q ─────────────────▶ rotated q ─────────────────▶ attention      one of the two stays
//      k ─▶ rotated k ─▶ rotated k, repeated ──────────▶ attention      rotated k stays: fewest bytes, then fewest ops
//
// PyTorch's min_cut_rematerialization_partition (AOTAutograd) works the same way. An activation that leaves its block
// is kept, so that no chain of recomputations is longer than a block.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/rules/activation_placement_draft.h"

namespace memtune::plan {

// Places activations of the `covered` blocks (one flag per block). `facts` and `graph` must be measured. Private
// tensors smaller than `saved_min_bytes` are always kept.
void place_cheap(const std::vector<bool>& covered, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                 int64_t saved_min_bytes, ActivationPlacementDraft& draft);

}  // namespace memtune::plan
