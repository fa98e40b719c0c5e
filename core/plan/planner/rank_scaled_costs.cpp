#include "core/plan/planner/rank_scaled_costs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/bounds.h"
#include "core/base/bytes.h"
#include "core/base/device/simulated_caching_allocator.h"
#include "core/base/error.h"

namespace memtune::planner {
namespace {

using device::SimulatedCachingAllocator;
using plan::RecordedStepCosts;

void check(const RecordedStepCosts& costs, int ranks) {
  if (!costs.sharded())
    throw UsageError("the step of one rank is not sharded, so a step of " + std::to_string(ranks) +
                     " ranks cannot be predicted from it: record one with memtune sweep --strategy none --ranks 2");
  if (ranks < 2) throw UsageError(std::to_string(ranks) + " ranks shard nothing: give at least 2");
  if (costs.sharding.shard_bytes < 0 || costs.gradient_bytes.empty())
    throw UsageError("an earlier memtune recorded this step, without the bytes of its shards: record none again");
}

// PyTorch's allocator does not split off the last MiB of a block: what the parameters' shards have beyond their size.
int64_t unsplit_bytes(const RecordedStepCosts& costs, int ranks) {
  if (costs.grain_bytes == 1) return 0;  // a CPU that emulates a device has no such allocator
  int64_t bytes = 0;
  for (const RecordedStepCosts::Unit& unit : costs.sharding.units) {
    const int64_t shard = round_up(unit.bytes / ranks, costs.grain_bytes);
    bytes = bounded_sum(bytes, SimulatedCachingAllocator(costs.grain_bytes).take(shard).bytes - shard);
  }
  return bytes;
}

class ShardScale {
 public:
  // `beside_bytes`: difference in what is allocated beside the shards.
  ShardScale(double ratio, int64_t beside_bytes) : ratio_(ratio), beside_bytes_(beside_bytes) {}

  // Replaces `shards`, which are part of `bytes`, by those of the other number of ranks.
  void within(int64_t& bytes, int64_t shards) const { bytes = scaled(bytes, shards, beside_bytes_); }
  void all(int64_t& shards) const { shards = scaled(shards, shards, 0); }

 private:
  int64_t scaled(int64_t bytes, int64_t shards, int64_t beside) const {
    const double changed = static_cast<double>(bytes + beside) + (ratio_ - 1) * static_cast<double>(shards);
    return std::llround(std::clamp(changed, 0.0, static_cast<double>(kMaxBytes)));
  }

  double ratio_;
  int64_t beside_bytes_;
};

}  // namespace

// A reduction adds its gradient after the peak of its entry. A read follows it.
RecordedStepCosts costs_on_ranks(const RecordedStepCosts& recorded, int ranks) {
  check(recorded, ranks);
  RecordedStepCosts costs = recorded;
  RecordedStepCosts::Sharding& sharding = costs.sharding;
  const double ratio = static_cast<double>(sharding.ranks) / ranks;
  const ShardScale scale(ratio, unsplit_bytes(recorded, ranks) - unsplit_bytes(recorded, sharding.ranks));
  const auto shards = [&](size_t moment) { return recorded.sharding.shard_bytes + recorded.gradient_bytes[moment]; };
  scale.within(costs.start_bytes, recorded.sharding.shard_bytes);
  for (RecordedStepCosts::Run& run : costs.runs) scale.within(run.before_bytes, shards(0));
  scale.within(costs.before_peak_bytes, shards(0));
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    scale.within(costs.moments[i].before_bytes, shards(i));
    scale.within(costs.moments[i].peak_bytes, shards(i));
  }
  for (RecordedStepCosts::UnitRead& read : sharding.reads) {
    scale.within(read.before_bytes, shards(static_cast<size_t>(read.moment)));
    scale.within(read.peak_bytes, shards(static_cast<size_t>(read.moment)));
  }
  scale.within(costs.after_peak_bytes, shards(costs.moments.size()));
  for (int64_t& bytes : costs.gradient_bytes) scale.all(bytes);
  scale.all(sharding.shard_bytes);
  sharding.rank = std::min(sharding.rank, ranks - 1);
  sharding.ranks = ranks;
  costs.step_ms -= (1 - ratio) * std::min(costs.after_ms, costs.step_ms);
  costs.after_ms *= ratio;
  return costs;
}

}  // namespace memtune::planner
