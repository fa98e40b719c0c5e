// Rules of the offload strategies: activations are offloaded, all of them or a share of their bytes.
#pragma once

#include "core/config/strategy.h"
#include "core/plan/draft.h"

namespace memtune::plan {

config::TransferSettings transfer_settings(const config::StrategyPart& part);

// Changes only places that still are keep. Throws UsageError if `keep_last` is more than the number of blocks.
void place_offload(const config::StrategyPart& part, const config::ProgramFacts& facts, const MemoryGraph& graph,
                   Draft& draft);

}  // namespace memtune::plan
