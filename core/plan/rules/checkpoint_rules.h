// Rules of the checkpoint strategies: blocks are recomputed from their inputs and from op outputs that the strategy
// keeps.
#pragma once

#include "core/plan/rules/activation_placement_draft.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::plan {

// Whether inputs of checkpointed blocks are offloaded to host memory, for presets of other engines. It applies to each
// activation that exactly one checkpointed block reads. Inputs of the last `keep_last` blocks stay on the device. So do
// activations that several blocks read, such as those that trainers pass by keyword.
struct CheckpointInputOffloadPolicy {
  bool offloads_activations = false;
  int keep_last = 0;
};

// Throws UsageError if the model has fewer blocks than the part asks for, or lacks an op of the save list.
void place_checkpoint(const StrategyPart& part, const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                      int64_t saved_min_bytes, CheckpointInputOffloadPolicy input_policy,
                      ActivationPlacementDraft& draft);

}  // namespace memtune::plan
