// offload:sync, stream and group: values move off the device, all of them or a share of their bytes.
#pragma once

#include "core/plan/draft.h"
#include "core/plan/strategy_spec.h"

namespace memtune::plan {

config::TransferSettings transfer_settings(const StrategySpec& spec);

// Places what has stayed so far. UsageError when the model has not the blocks that are named.
void place_offload(const StrategySpec& spec, const config::ProgramFacts& facts, const MemoryGraph& graph, Draft& draft);

}  // namespace memtune::plan
