// "memtune plan --from RUN --ranks N": predicts the step that some ranks recorded for another number of ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/facts/recorded_op_costs.h"

namespace memtune::sweep {

inline constexpr int64_t kMaxPlannedRanks = int64_t{1} << 20;

// Of each rank's link to the host, while all ranks copy.
struct HostLinkBandwidth {
  double out_gb_per_s = 0, in_gb_per_s = 0;
};

class OtherRankCountPrediction {
 public:
  // `ranks`: 2 to kMaxPlannedRanks. `rates`: none: as recorded. Throws UsageError if the step is not sharded or lacks
  // the bytes of its shards.
  OtherRankCountPrediction(const plan::RecordedOpCosts& costs, int ranks,
                           const std::optional<HostLinkBandwidth>& rates);

  const plan::RecordedOpCosts& costs() const { return costs_; }

  std::string title() const;               // follows the name of the recorded step
  std::vector<std::string> notes() const;  // for the user
  nlohmann::json to_json() const;

 private:
  int recorded_;
  std::optional<HostLinkBandwidth> rates_;
  plan::RecordedOpCosts costs_;
};

}  // namespace memtune::sweep
