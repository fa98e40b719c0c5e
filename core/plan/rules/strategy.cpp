#include "core/plan/rules/strategy.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/rules/checkpoint_rules.h"
#include "core/plan/rules/offload_rules.h"

namespace memtune::plan {
namespace {

// Checkpoints and offload groups consist of blocks.
bool needs_blocks(const StrategyPart& part) {
  if (part.info().preset && part.info().preset->hooks == StepPartWithSavedTensorHooks::blocks) return true;
  return part.is_checkpoint() || part.is_states() || part.kind() == StrategyKind::offload_group || !part.blocks().all();
}

void check_blocks(const StrategyPart& part, const ProgramFacts& facts) {
  if (!needs_blocks(part)) return;
  if (facts.blocks.empty())
    throw UsageError("no repeated blocks were found in the model; name them with --blocks 'layers.*'");
  try {
    part.blocks().check(facts.blocks.size());
  } catch (const UsageError& error) {
    throw UsageError(std::string(part.info().name) + ": blocks: " + error.what());
  }
}

// The offload part defines how copies are scheduled. Without one, the checkpoint preset does, for the inputs of its
// blocks; else defaults apply.
void take_settings(const Strategy& strategy, Plan& plan) {
  for (const StrategyPart& part : strategy.parts()) {
    if (part.info().preset && part.is_checkpoint()) plan.transfer = part.info().preset->transfer;
    // A block that is recomputed as a whole makes them again, whatever their size.
    if (part.is_checkpoint() && part.kind() != StrategyKind::checkpoint_cheap) plan.saved_min_bytes = 0;
  }
  const auto offload = std::ranges::find_if(strategy.parts(), &StrategyPart::is_offload);
  if (offload == strategy.parts().end()) return;
  const bool whole_blocks = plan.transfer.compatibility.whole_blocks;
  plan.transfer = transfer_settings(*offload);
  plan.transfer.compatibility.whole_blocks = whole_blocks;
  plan.saved_min_bytes = plan.transfer.min_bytes;
}

// A preset's engine offloads inputs that checkpoints keep in the same way as all saved tensors.
CheckpointInputOffloadPolicy handed_over(const Strategy& strategy) {
  for (const StrategyPart& part : strategy.parts())
    if (const ThirdPartyEnginePreset* preset = part.info().preset; preset && (preset->inputs || part.is_offload()))
      return {true, preset->keep_last};
  return {};
}

// Each block is in one part at most. The first part decides about what is outside of blocks.
void place_states(const StrategyPart& part, const ProgramFacts& facts, std::vector<UnitStatePlacement>& states) {
  const auto add = [&](const std::string& unit, TensorPlacement parameters, TensorPlacement moments) {
    if (parameters != TensorPlacement::keep || moments != TensorPlacement::keep)
      states.push_back({unit, parameters, moments});
  };
  for (size_t i = 0; i < facts.blocks.size(); ++i)
    if (part.blocks().contains(static_cast<int>(i)))
      add(facts.blocks[i].region, part.place(StrategyParameterId::parameters),
          part.place(StrategyParameterId::moments));
  const std::string& outside = part.word(StrategyParameterId::outside);
  if (std::ranges::count(states, kOutsideUnits, &UnitStatePlacement::unit) > 0 || outside == "keep") return;
  add(kOutsideUnits, outside == "host" ? TensorPlacement::host : TensorPlacement::keep, TensorPlacement::host);
}

}  // namespace

Plan make_plan(const Strategy& strategy, const ProgramFacts& facts) {
  const OpMemoryAccessGraph graph(facts);
  ActivationPlacementDraft draft(facts);
  Plan plan;
  plan.strategy = to_string(strategy);
  take_settings(strategy, plan);
  for (const StrategyPart& part : strategy.parts()) {
    if (part.kind() == StrategyKind::none) continue;
    check_blocks(part, facts);
    if (part.is_checkpoint())
      place_checkpoint(part, facts, graph, plan.saved_min_bytes, handed_over(strategy), draft);
    else if (part.is_states())
      place_states(part, facts, plan.states);
    else
      place_offload(part, facts, graph, draft);
  }
  plan.nested = std::ranges::any_of(strategy.parts(), [](const StrategyPart& part) {
    return part.has(StrategyParameterId::segment) && part.count(StrategyParameterId::segment) > 1;
  });
  plan.placements = draft.placements();
  return plan;
}

}  // namespace memtune::plan
