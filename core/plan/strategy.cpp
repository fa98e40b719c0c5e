#include "core/plan/strategy.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/checkpoint_rules.h"
#include "core/plan/offload_rules.h"
#include "core/plan/strategy_spec.h"

namespace memtune::plan {
namespace {

using config::Plan;
using config::ProgramFacts;

// Checkpoints and groups are made of blocks.
bool needs_blocks(const StrategySpec& part) {
  return part.is_checkpoint() || part.info->name == "offload:group" || !part.blocks().all();
}

void check_blocks(const StrategySpec& part, const ProgramFacts& facts) {
  if (!needs_blocks(part)) return;
  if (facts.blocks.empty())
    throw UsageError("no repeated blocks were found in the model; name them with --blocks 'layers.*'");
  try {
    part.blocks().check(facts.blocks.size());
  } catch (const UsageError& error) {
    throw UsageError(part.info->name + ": blocks: " + error.what());
  }
}

// Copies are scheduled as the offload part says; without one, for the inputs of checkpointed blocks, as by default.
void take_settings(const std::vector<StrategySpec>& parts, Plan& plan) {
  const auto offload = std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part.is_offload(); });
  if (offload == parts.end()) return;
  plan.transfer = transfer_settings(*offload);
  plan.saved_min_bytes = plan.transfer.min_bytes;
}

}  // namespace

Plan make_plan(const std::string& spec, const ProgramFacts& facts) {
  const std::vector<StrategySpec> parts = parse_strategy(spec);
  const MemoryGraph graph(facts);
  Draft draft(facts);
  Plan plan;
  plan.strategy = spec;
  take_settings(parts, plan);
  for (const StrategySpec& part : parts) {
    if (part.info->name == "none") continue;
    check_blocks(part, facts);
    if (part.is_checkpoint())
      place_checkpoint(part, facts, graph, plan.saved_min_bytes, draft);
    else
      place_offload(part, facts, graph, draft);
  }
  plan.nested = std::any_of(parts.begin(), parts.end(),
                            [](const auto& part) { return part.has("segment") && part.count("segment") > 1; });
  plan.placements = draft.placements();
  return plan;
}

}  // namespace memtune::plan
