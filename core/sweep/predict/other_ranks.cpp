#include "core/sweep/predict/other_ranks.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/planner/rank_scaled_costs.h"

namespace memtune::sweep {
namespace {

plan::StepCosts costs_on(const plan::StepCosts& costs, int ranks) try {
  return planner::costs_on_ranks(costs, ranks);
} catch (const UsageError& error) {
  throw UsageError(std::string("--ranks: ") + error.what());
}

}  // namespace

OtherRanks::OtherRanks(const plan::StepCosts& costs, int ranks)
    : recorded_(costs.sharding.ranks), costs_(costs_on(costs, ranks)) {}

std::string OtherRanks::title() const {
  return "recorded on " + std::to_string(recorded_) + " ranks, planned for " + std::to_string(costs_.sharding.ranks);
}

std::vector<std::string> OtherRanks::notes() const {
  if (costs_.sharding.ranks == recorded_) return {};
  const std::string ranks = std::to_string(costs_.sharding.ranks);
  return {"peaks: shards of parameters, gradients and optimizer states scale with the ranks, all else is as on " +
              std::to_string(recorded_) + " ranks",
          "step ms: the optimizer's time scales with the shards; gathers, reductions and copies to the host take as "
          "long as recorded. This assumes " +
              ranks + " ranks on one host with links like the recorded ones",
          "to run a plan of --write: memtune sweep --ranks " + ranks + " --plan FILE"};
}

nlohmann::json OtherRanks::to_json() const { return {{"recorded", recorded_}, {"planned_for", costs_.sharding.ranks}}; }

}  // namespace memtune::sweep
