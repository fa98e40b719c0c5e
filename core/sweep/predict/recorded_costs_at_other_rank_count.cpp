#include "core/sweep/predict/recorded_costs_at_other_rank_count.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/plan/planner/rank_scaled_costs.h"

namespace memtune::sweep {
namespace {

plan::RecordedStepCosts costs_on(const plan::RecordedStepCosts& costs, int ranks) try {
  return planner::costs_on_ranks(costs, ranks);
} catch (const UsageError& error) {
  throw UsageError(std::string("--ranks: ") + error.what());
}

}  // namespace

RecordedCostsAtOtherRankCount::RecordedCostsAtOtherRankCount(const plan::RecordedStepCosts& costs, int ranks,
                                                             const std::optional<PerRankHostLinkBandwidth>& rates)
    : recorded_(costs.sharding.ranks), rates_(rates), costs_(costs_on(costs, ranks)) {
  if (!rates) return;
  costs_.out_gb_per_s = rates->out_gb_per_s;
  costs_.in_gb_per_s = rates->in_gb_per_s;
}

std::string RecordedCostsAtOtherRankCount::title() const {
  return "recorded on " + std::to_string(recorded_) + " ranks, planned for " + std::to_string(costs_.sharding.ranks);
}

std::vector<std::string> RecordedCostsAtOtherRankCount::notes() const {
  if (costs_.sharding.ranks == recorded_ && !rates_) return {};
  const std::string ranks = std::to_string(costs_.sharding.ranks);
  return {"peaks: shards of parameters, gradients and optimizer states scale with the ranks, all else is as on " +
              std::to_string(recorded_) + " ranks",
          "step ms: the optimizer's time scales with the shards; gathers and reductions take as long as recorded. This "
          "assumes " +
              ranks + " ranks on one host with links like the recorded ones",
          rates_ ? "copies to and from the host: at the rates of --link-rates"
                 : "copies to and from the host: at the recorded rates, " + fixed(costs_.out_gb_per_s, 1) +
                       " GB/s out and " + fixed(costs_.in_gb_per_s, 1) +
                       " in. Of more ranks each may get less: memtune doctor measures "
                       "all links together, and --link-rates takes its figures",
          "to run a plan of --write: memtune sweep --ranks " + ranks + " --plan FILE"};
}

nlohmann::json RecordedCostsAtOtherRankCount::to_json() const {
  nlohmann::json json = {{"recorded", recorded_}, {"planned_for", costs_.sharding.ranks}};
  if (rates_) json["link_rates"] = {rates_->out_gb_per_s, rates_->in_gb_per_s};
  return json;
}

}  // namespace memtune::sweep
