// The costs of a step are read back from their file unchanged. An invalid file is refused with the field.
#include "core/plan/facts/recorded_step_costs.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "core/record/trace/private_save.h"

namespace memtune::step_costs_test {

using nlohmann::json;
using namespace memtune;
using namespace memtune::plan;

namespace {

RecordedStepCosts two_ops() {
  RecordedStepCosts costs;
  costs.grain_bytes = 512;
  costs.expandable_segments = true;
  costs.start_bytes = 1000;
  costs.step_ms = 9.5;
  costs.values = {{0, 0, 64}, {1, kPrivateSave, 32, 0}};
  costs.runs = {{0, 1.5, 0.5, 1000, 64, false, {}, {0}, {}, {}}, {3, 2.5, 0.25, 1064, 96, true, {0}, {1}, {0}, {0, 1}}};
  costs.saved = {{0, 1}, {1, 1}};
  costs.gradient_bytes = {0, 64, 128};
  costs.moments = {{RecordedStepCosts::Moment::Kind::unpack, 1, 3, 0.1, 1096, 1200},
                   {RecordedStepCosts::Moment::Kind::end, 1, 0, 0, 1200, 1200}};
  costs.rerun_ms = 0.5;
  costs.plan.strategy = "checkpoint:full";
  costs.plan.placements = {{3, "mul", {TensorPlacement::recompute}, TensorPlacement::keep}};
  return costs;
}

RecordedStepCosts sharded() {
  RecordedStepCosts costs = two_ops();
  costs.sharding = {2, 1, "after-backward", 0.5, 900, {{"layers.0", 4096, 1.5}, {"behind", 64, 0.25}}, {}};
  costs.sharding.reads = {{0, 1096, 1300, 0.125, {1}}, {2, 1200, 1400, 0, {0, 1}}};
  costs.runs[1].units = {0, 1};
  return costs;
}

RecordedStepCosts issued() {
  RecordedStepCosts costs = two_ops();
  costs.issue = {{{0.25, false}, {0.5, true}}, {{0.125, false}, {0, false}}, 0.75, 1.5, 0.0625, 0.03125};
  return costs;
}

// Returns the error for costs with one field changed, or "taken".
std::string refusal(const std::string& place, const json& value, const RecordedStepCosts& costs = two_ops()) {
  json written = costs;
  written[json::json_pointer(place)] = value;
  try {
    written.get<RecordedStepCosts>();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("the costs of a step are read back from their file unchanged") {
  CHECK(json(two_ops()).get<RecordedStepCosts>() == two_ops());
  CHECK(json::parse(json(two_ops()).dump()).get<RecordedStepCosts>() == two_ops());
}

TEST_CASE("costs of a sharded step are read back and have a version that older readers refuse") {
  CHECK(json::parse(json(sharded()).dump()).get<RecordedStepCosts>() == sharded());
  CHECK(json(two_ops())["version"] == 2);
  CHECK(json(sharded())["version"] == 3);
  json earlier = sharded();
  earlier["sharding"].erase("shard_bytes");
  CHECK(earlier.get<RecordedStepCosts>().sharding.shard_bytes == RecordedStepCosts::Sharding::kUnknown);
  CHECK(json(earlier.get<RecordedStepCosts>()) == earlier);
}

TEST_CASE("issue times are read back, and costs without them have no such field") {
  CHECK(json::parse(json(issued()).dump()).get<RecordedStepCosts>() == issued());
  CHECK(json(issued())["version"] == 2);
  CHECK_FALSE(json(two_ops()).contains("issue"));
  CHECK_FALSE(json(two_ops()).get<RecordedStepCosts>().has_issue_times());
}

TEST_CASE("issue times that do not go with the step are refused with the field") {
  const auto refused = [](const char* place, const json& value) {
    return refusal(std::string("/issue") + place, value, issued());
  };
  CHECK(refused("/after_ms", 0) == "taken");
  CHECK(refused("/runs/rows", json::array()) == "costs.issue.runs must have 2 rows");
  CHECK(refused("/moments/rows/2", json{0, 0}) == "costs.issue.moments must have 2 rows");
  CHECK(refused("/runs/rows/1/1", 2).find("costs.issue.runs: 2 is no whole number") == 0);
  CHECK(refused("/moments/rows/0/0", -1).find("costs.issue.moments: -1 is no number from 0.0") == 0);
  CHECK(refused("/copy_ms", -1).find("costs.issue.copy_ms must be a number from 0.0") == 0);
  CHECK(refused("", 3).find("costs.issue") == 0);
}

TEST_CASE("unknown units and reads out of order are refused with the field") {
  const auto refused = [](const char* place, const json& value) {
    return refusal(std::string("/sharding") + place, value, sharded());
  };
  CHECK(refused("/rank", 0) == "taken");
  CHECK(refused("/rank", 2).find("costs.sharding.rank") == 0);
  CHECK(refused("/reshard", "some").find("unknown costs.sharding.reshard 'some'") == 0);
  CHECK(refused("/units/rows", json::array()) == "costs.sharding has no units");
  CHECK(refused("/units/rows/0/1", -1).find("costs.sharding.units: -1 is no whole number") == 0);
  CHECK(refused("/units/rows/0/0", 1).find("costs.sharding.units must have a name") == 0);
  CHECK(refused("/runs/rows/0/0", 2).find("costs.sharding.runs: 2 is no whole number") == 0);
  CHECK(refused("/runs/rows/0/1", json{2}).find("costs.sharding.runs: 2 is no whole number") == 0);
  CHECK(refused("/reads/rows/1/4", json{2}).find("costs.sharding.reads: 2 is no whole number") == 0);
  CHECK(refused("/reads/rows/0/0", 3).find("costs.sharding.reads: 3 is no whole number") == 0);
  CHECK(refused("/reads/rows/1/0", 1) == "taken");
  CHECK(refused("/shard_bytes", -1).find("costs.sharding.shard_bytes") == 0);
  CHECK(refused("/forward_wait_ms", -1) ==
        "costs.sharding.forward_wait_ms must be a number from 0.0 to 1000000000.0, not -1");
  json without = sharded();
  without.erase("sharding");
  CHECK_THROWS_AS(without.get<RecordedStepCosts>(), UsageError);
}

TEST_CASE("costs with numbers out of range are refused with the field") {
  CHECK(refusal("/start_bytes", 1000) == "taken");
  CHECK(refusal("/values/rows/1/0", 2).find("costs.values: 2 is no whole number") == 0);
  CHECK(refusal("/values/rows/1/3", 5).find("costs.values: 5 is no whole number") == 0);
  CHECK(refusal("/runs/rows/1/6", json{7}).find("costs.runs: 7 is no whole number") == 0);
  CHECK(refusal("/runs/rows/0/1", "x").find("costs.runs: \"x\" is no number from 0.0 to 1000000000.0") == 0);
  CHECK(refusal("/saved/rows/0", json{1}).find("costs.saved must be a list of 2") == 0);
  CHECK(refusal("/moments/rows/0/1", -1).find("costs.moments: -1 is no whole number") == 0);
  CHECK(refusal("/moments/rows/0/0", 2).find("costs.moments: 2 is no whole number") == 0);
  CHECK(refusal("/runs", 3).find("costs.runs must be a table") == 0);
  CHECK(refusal("/gradient_bytes", json{1, 2}) == "costs.gradient_bytes must be 3, or none");
  CHECK(refusal("/gradient_bytes/1", -1).find("costs.gradient_bytes") == 0);
  CHECK(refusal("/gradient_bytes", json::array()) == "taken");  // of an earlier memtune
  CHECK(refusal("/version", 1).find("costs.version") == 0);     // its peaks were different
  CHECK(refusal("/version", 4).find("costs.version") == 0);
  CHECK(refusal("/plan/placements/0/outputs/0", "host").find("costs.plan offloads activations") == 0);
  CHECK(refusal("/plan/placements/0/op", -1).find("plan.placements[0].op") == 0);
  CHECK(refusal("/runs/rows/0/1", -1).find("costs.runs: -1 is no number from 0.0") == 0);
  CHECK(refusal("/runs/rows/0/1", 1e308).find("costs.runs: 1e+308 is no number from 0.0") == 0);
  CHECK(refusal("/values/rows/0/2", INT64_MAX).find("costs.values: 9223372036854775807 is no whole number") == 0);
  CHECK(refusal("/step_ms", 0) == "costs.step_ms must be a number from 1e-06 to 1000000000.0, not 0");
  CHECK(refusal("/step_ms", -5) == "costs.step_ms must be a number from 1e-06 to 1000000000.0, not -5");
  CHECK(refusal("/rerun_ms", -1) == "costs.rerun_ms must be a number from 0.0 to 1000000000.0, not -1");
  CHECK(refusal("/runs/rows/0/7", json{1}) == "costs.runs makes a value of another run");
  CHECK(refusal("/runs/rows/0/6", json{1}).find("costs.values has one made from what is not there yet") == 0);
  CHECK(refusal("/values/rows/0/0", 1) == "costs.runs makes a value of another run");
  CHECK(refusal("/values/rows/1/3", 1).find("costs.values has one made from what is not there yet") == 0);
  CHECK(refusal("/grain_bytes", 0).find("costs.grain_bytes") == 0);
}

TEST_CASE("costs with values made from others too deep are refused") {
  for (const int values : {10'000, 10'001}) {
    RecordedStepCosts costs;
    costs.step_ms = 1;
    for (int i = 0; i < values; ++i) {
      costs.values.push_back({i, 0, 8});
      costs.runs.push_back({.op = 0, .reads = i == 0 ? std::vector<int>() : std::vector{i - 1}, .makes = {i}});
    }
    const json written = costs;
    if (values == 10'000)
      CHECK(written.get<RecordedStepCosts>() == costs);
    else
      CHECK_THROWS_WITH_AS(written.get<RecordedStepCosts>(),
                           "costs.values has one made from others more than 10000 deep", UsageError);
  }
}

}  // namespace memtune::step_costs_test
