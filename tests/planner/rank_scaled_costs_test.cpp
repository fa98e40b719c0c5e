// A sharded step on 2 ranks: shards of 800 bytes, gradients of 0, 100, 300 and 400 bytes as backward goes on.
#include "core/plan/planner/rank_scaled_costs.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace memtune::rank_scaled_costs_test {

using namespace memtune;
using plan::RecordedStepCosts;
using planner::costs_on_ranks;
using Kind = RecordedStepCosts::Moment::Kind;

namespace {

RecordedStepCosts two_ranks() {
  RecordedStepCosts costs;
  costs.start_bytes = 1000;
  costs.before_peak_bytes = 1900;
  costs.after_peak_bytes = 1500;
  costs.step_ms = 20;
  costs.after_ms = 4;
  costs.runs = {{.op = 0, .ms = 1, .before_bytes = 1100, .own_bytes = 50, .units = {0}}};
  costs.moments = {
      {Kind::unpack, 0, 2, 0, 2000, 2100}, {Kind::end, 0, 0, 0, 2000, 2200}, {Kind::unpack, 1, 2, 0, 2000, 2300}};
  costs.gradient_bytes = {0, 100, 300, 400};
  costs.sharding.ranks = 2;
  costs.sharding.rank = 1;
  costs.sharding.shard_bytes = 800;
  costs.sharding.units = {{"block 0", 600, 3}};
  costs.sharding.reads = {{0, 1800, 1850, 0, {0}}, {2, 1900, 1950, 0, {0}}, {3, 1700, 1750, 0, {0}}};
  return costs;
}

std::string refusal(const RecordedStepCosts& costs, int ranks) {
  try {
    costs_on_ranks(costs, ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("on twice the ranks every entry of the step has half of its shards") {
  const RecordedStepCosts recorded = two_ranks(), costs = costs_on_ranks(recorded, 4);
  CHECK(costs.start_bytes == 1000 - 400);
  CHECK(costs.runs[0].before_bytes == 1100 - 400);
  CHECK(costs.runs[0].own_bytes == 50);
  CHECK(costs.before_peak_bytes == 1900 - 400);
  CHECK(costs.moments[0].before_bytes == 2000 - 400);
  CHECK(costs.moments[1].before_bytes == 2000 - 450);
  CHECK(costs.moments[1].peak_bytes == 2200 - 450);
  CHECK(costs.moments[2].peak_bytes == 2300 - 550);
  CHECK(costs.sharding.reads[0].before_bytes == 1800 - 400);
  CHECK(costs.sharding.reads[1].peak_bytes == 1950 - 550);
  CHECK(costs.sharding.reads[2].peak_bytes == 1750 - 600);
  CHECK(costs.after_peak_bytes == 1500 - 600);
  CHECK(costs.sharding.ranks == 4);
  CHECK(costs.sharding.units == recorded.sharding.units);
}

TEST_CASE("the last of several micro-batches begins with gradient shards that the step began without") {
  RecordedStepCosts recorded = two_ranks();
  recorded.gradient_bytes[0] = 100;
  const RecordedStepCosts costs = costs_on_ranks(recorded, 4);
  CHECK(costs.start_bytes == 1000 - 400);
  CHECK(costs.runs[0].before_bytes == 1100 - 450);
  CHECK(costs.before_peak_bytes == 1900 - 450);
}

TEST_CASE("a shard takes the whole block if the allocator does not split off its rest") {
  RecordedStepCosts recorded = two_ranks();
  recorded.grain_bytes = 512;
  recorded.sharding.units[0].bytes = 116 << 20;  // 58 MiB of a segment of 58, then 29 of one of 30
  const RecordedStepCosts costs = costs_on_ranks(recorded, 4);
  CHECK(costs.start_bytes == 1000 - 400 + (1 << 20));
  CHECK(costs.moments[1].peak_bytes == 2200 - 450 + (1 << 20));
  CHECK(costs.gradient_bytes[1] == 50);
}

TEST_CASE("the optimizer's time scales with the shards and the step's time with it") {
  const RecordedStepCosts more = costs_on_ranks(two_ranks(), 8);
  CHECK(more.after_ms == 1);
  CHECK(more.step_ms == 17);
  CHECK(more.runs[0].ms == 1);
  RecordedStepCosts four = two_ranks();
  four.sharding.ranks = 4;
  CHECK(costs_on_ranks(four, 2).step_ms == 24);
  four.after_ms = 100;  // of a step that waits for nothing, recorded on a busy machine
  CHECK(costs_on_ranks(four, 8).step_ms == 10);
}

TEST_CASE("a step converted to more ranks and back is the recorded one") {
  RecordedStepCosts recorded = two_ranks();
  CHECK(costs_on_ranks(costs_on_ranks(recorded, 8), 2) == recorded);
  CHECK(costs_on_ranks(recorded, 2) == recorded);
  recorded.sharding.ranks = 8;
  recorded.sharding.rank = 5;
  CHECK(costs_on_ranks(recorded, 2).sharding.rank == 1);
}

TEST_CASE("memory of no rank is negative or more than any machine has") {
  RecordedStepCosts hostile = two_ranks();
  hostile.sharding.shard_bytes = int64_t{1} << 50;
  CHECK(costs_on_ranks(hostile, 1 << 20).runs[0].before_bytes == 0);
  hostile.sharding.ranks = 1 << 20;
  CHECK(costs_on_ranks(hostile, 2).runs[0].before_bytes == int64_t{1} << 50);
}

TEST_CASE("a step without shards or without their bytes is refused with the way out") {
  RecordedStepCosts costs = two_ranks();
  CHECK(refusal(costs, 1).find("give at least 2") != std::string::npos);
  costs.gradient_bytes.clear();
  CHECK(refusal(costs, 4).find("record none again") != std::string::npos);
  costs = two_ranks();
  costs.sharding.shard_bytes = RecordedStepCosts::Sharding::kUnknown;
  CHECK(refusal(costs, 4).find("record none again") != std::string::npos);
  costs.sharding.units.clear();
  CHECK(refusal(costs, 4).find("--ranks 2") != std::string::npos);
}

}  // namespace memtune::rank_scaled_costs_test
