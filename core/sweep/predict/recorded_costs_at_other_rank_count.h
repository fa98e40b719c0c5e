// "memtune plan --from RUN --ranks N": predicts the step that some ranks recorded for another number of ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::sweep {

inline constexpr int64_t kMaxPlannedRanks = int64_t{1} << 20;

// Of each rank's link to the host, while all ranks copy.
struct PerRankHostLinkBandwidth {
  double out_gb_per_s = 0, in_gb_per_s = 0;
};

class RecordedCostsAtOtherRankCount {
 public:
  // `ranks`: 2 to kMaxPlannedRanks. `rates`: none: as recorded. Throws UsageError if the step is not sharded or lacks
  // the bytes of its shards.
  RecordedCostsAtOtherRankCount(const plan::RecordedStepCosts& costs, int ranks,
                                const std::optional<PerRankHostLinkBandwidth>& rates);

  const plan::RecordedStepCosts& costs() const { return costs_; }

  std::string title() const;               // follows the name of the recorded step
  std::vector<std::string> notes() const;  // for the user
  nlohmann::json to_json() const;

 private:
  int recorded_;
  std::optional<PerRankHostLinkBandwidth> rates_;
  plan::RecordedStepCosts costs_;
};

}  // namespace memtune::sweep
