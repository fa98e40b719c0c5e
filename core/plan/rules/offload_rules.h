// Rules of the offload strategies: activations are offloaded, all of them or a share of their bytes.
#pragma once

#include "core/plan/rules/activation_placement_draft.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::plan {

TransferSettings transfer_settings(const StrategyPart& part);

// Changes only places that still are keep. Throws UsageError if `keep_last` is more than the number of blocks.
void place_offload(const StrategyPart& part, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                   ActivationPlacementDraft& draft);

}  // namespace memtune::plan
