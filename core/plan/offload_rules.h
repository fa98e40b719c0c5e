// offload:sync, stream and group: values move off the device, all of them or a share of their bytes.
#pragma once

#include "core/config/strategy.h"
#include "core/plan/draft.h"

namespace memtune::plan {

config::TransferSettings transfer_settings(const config::StrategyPart& part);

// Places what has stayed so far. UsageError when the model has not the blocks that are named.
void place_offload(const config::StrategyPart& part, const config::ProgramFacts& facts, const MemoryGraph& graph,
                   Draft& draft);

}  // namespace memtune::plan
