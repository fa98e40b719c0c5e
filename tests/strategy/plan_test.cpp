// Plans are written by strategies and by users. The error names what a user mistyped.
#include "core/plan/strategy/plan.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/strategy/plan_reader.h"
#include "core/plan/strategy/third_party_engine_preset.h"

namespace memtune::plan_test {

using namespace memtune;
using namespace memtune::plan;
using nlohmann::json;

namespace {

Plan example() {
  Plan plan;
  plan.strategy = "checkpoint:op,inputs=host";
  plan.saved_min_bytes = 7;
  plan.nested = true;
  plan.transfer = {false, false, 1, 2, 3, ActivationOffloadCopyGranularity::block, 4, 5, {}};
  plan.transfer.compatibility = {.learns = false,
                                 .prefetch_ops = 1,
                                 .stash_saves = 5,
                                 .counts_all = true,
                                 .empties_stash = true,
                                 .one_stream = true,
                                 .host_waits = true,
                                 .power_of_two = true,
                                 .parameter_views = true,
                                 .flat_broadcasts = true,
                                 .whole_blocks = true,
                                 .repeats = RepeatedSavedTensorOffloadPolicy::share};
  plan.placements = {
      {3,
       "layers.0/aten::silu",
       {TensorPlacement::recompute, TensorPlacement::host},
       TensorPlacement::disk,
       TensorPlacement::host},
      {5, "layers.0/aten::mul", {TensorPlacement::keep}, TensorPlacement::recompute, TensorPlacement::keep}};
  return plan;
}

void check_refused(const json& patch, const std::string& message) {
  json plan = example();
  plan.merge_patch(patch);
  CHECK_THROWS_WITH_AS(read_plan_strictly(plan), message.c_str(), UsageError);
}

}  // namespace

TEST_CASE("a plan is read back from its file unchanged") {
  const json written = example();
  const Plan plan = json::parse(written.dump()).get<Plan>();
  CHECK(json(plan) == written);
  CHECK(plan == example());
  CHECK(plan.strategy == "checkpoint:op,inputs=host");
  CHECK(plan.saved_min_bytes == 7);
  CHECK(plan.nested);
  CHECK_FALSE(plan.transfer.pinned);
  CHECK_FALSE(plan.transfer.side_stream);
  CHECK(plan.transfer.prefetch_bytes == 3);
  CHECK(plan.transfer.schedule == ActivationOffloadCopyGranularity::block);
  CHECK(plan.transfer.groups_in_flight == 4);
  CHECK(plan.transfer.prefetch_blocks == 5);
  REQUIRE(plan.placements.size() == 2);
  CHECK(plan.placements[0].op == 3);
  CHECK(plan.placements[0].outputs == std::vector<TensorPlacement>{TensorPlacement::recompute, TensorPlacement::host});
  CHECK(plan.placements[0].saved == TensorPlacement::disk);
  CHECK(plan.placements[1].saved == TensorPlacement::recompute);
}

TEST_CASE("a plan's file has the documented form") {
  Plan plan;
  plan.strategy = "s";
  plan.placements = {{12, "a/b", {TensorPlacement::recompute}, TensorPlacement::keep}};
  const json expected = json::parse(R"({"version": 1, "strategy": "s", "saved_min_bytes": 1048576,
      "nested": false, "transfer": {"pinned": true, "side_stream": true, "min_bytes": 1048576, "stash_bytes": 8589934592, "prefetch_bytes": 1073741824,
                   "schedule": "value", "groups_in_flight": 1, "prefetch_blocks": 1},
      "placements": [{"op": 12, "name": "a/b", "outputs": ["recompute"], "saved": "keep"}]})");
  CHECK(json(plan) == expected);
}

TEST_CASE("a field that a plan's file leaves out has its default") {
  const Plan plan = json::parse(R"({"version": 1, "placements": [{"op": 4}]})").get<Plan>();
  CHECK(plan.transfer.side_stream);
  CHECK(plan.transfer.min_bytes == 1 << 20);
  CHECK(plan.transfer.schedule == ActivationOffloadCopyGranularity::value);
  CHECK(plan.placements[0].outputs.empty());
  CHECK(plan.keeps_everything());
}

TEST_CASE("a plan has places for parameters and optimizer states") {
  Plan plan;
  plan.states = {{"layers.0", TensorPlacement::host, TensorPlacement::keep},
                 {kOutsideUnits, TensorPlacement::keep, TensorPlacement::host}};
  CHECK(plan.offloads_states());
  CHECK(plan.keeps_everything());  // of the activations
  const nlohmann::json json = plan;
  CHECK(json["states"][0] == nlohmann::json{{"unit", "layers.0"}, {"parameters", "host"}, {"moments", "keep"}});
  CHECK(json.get<Plan>() == plan);
  CHECK_FALSE(nlohmann::json(Plan()).contains("states"));
  const auto refuse = [&](const char* field, const char* value, const std::string& message) {
    nlohmann::json changed = json;
    changed["states"][1][field] = value;
    CHECK_THROWS_WITH_AS(changed.get<Plan>(), message.c_str(), UsageError);
  };
  refuse("moments", "recompute", "plan.states[1].moments must be keep or host");
  refuse("parameters", "nowhere",
         "plan.states[1].parameters: unknown place 'nowhere'. Known: keep, recompute, host, disk");
}

TEST_CASE("a plan keeps everything if no placement says otherwise") {
  Plan plan;
  CHECK(plan.keeps_everything());
  plan.placements = {{0, "a", {TensorPlacement::keep, TensorPlacement::keep}, TensorPlacement::keep}};
  CHECK(plan.keeps_everything());
  plan.placements[0].outputs[1] = TensorPlacement::host;
  CHECK_FALSE(plan.keeps_everything());
  plan.placements = {{0, "a", {}, TensorPlacement::recompute}};
  CHECK_FALSE(plan.keeps_everything());
}

TEST_CASE("an error in a plan names field and value") {
  CHECK_THROWS_WITH_AS(json::array().get<Plan>(), "plan must be an object, not []", UsageError);
  CHECK_THROWS_WITH_AS(json::object().get<Plan>(), "plan.version is missing", UsageError);
  check_refused({{"version", 2}}, "plan.version must be an integer from 1 to 1, not 2");
  check_refused({{"strategy", 7}}, "plan.strategy must be a text, not 7");
  check_refused({{"placements", 7}}, "plan.placements must be an array, not 7");
  check_refused({{"saved_min_bytes", -1}},
                "plan.saved_min_bytes must be an integer from 0 to 1125899906842624, not -1");
  check_refused({{"transfer", {{"side_stream", 1}}}}, "plan.transfer.side_stream must be true or false, not 1");
  check_refused({{"transfer", {{"stash_bytes", 2.5}}}},
                "plan.transfer.stash_bytes must be an integer from 0 to 1125899906842624, not 2.5");
  check_refused(
      {{"transfer", {{"prefetch_byte", 1}}}},
      "unknown field of plan.transfer 'prefetch_byte'; did you mean 'prefetch_bytes'? Known: pinned, side_stream, "
      "min_bytes, stash_bytes, prefetch_bytes, schedule, groups_in_flight, prefetch_blocks, habits");
  check_refused({{"transfer", {{"schedule", "blocks"}}}},
                "plan.transfer.schedule: unknown schedule 'blocks'; did you mean 'block'? Known: value, block");
  check_refused({{"transfer", {{"groups_in_flight", 0}}}},
                "plan.transfer.groups_in_flight must be an integer from 1, not 0");
  check_refused({{"saved_min_bytes", 18446744073709551615u}},
                "plan.saved_min_bytes must be an integer from 0 to 1125899906842624, not 18446744073709551615");
}

TEST_CASE("an error in a placement names its number") {
  const json good = {{"op", 1}};
  check_refused({{"placements", {good, {{"name", "x"}}}}}, "plan.placements[1].op is missing");
  check_refused({{"placements", {good, {{"op", "x"}}}}}, "plan.placements[1].op must be an integer from 0, not \"x\"");
  check_refused({{"placements", {good, {{"op", -1}}}}}, "plan.placements[1].op must be an integer from 0, not -1");
  check_refused(
      {{"placements", {good, {{"op", 2}, {"outputs", {"keep", "disc"}}}}}},
      "plan.placements[1].outputs[1]: unknown place 'disc'; did you mean 'disk'? Known: keep, recompute, host, "
      "disk");
  check_refused(
      {{"placements", {good, {{"op", 2}, {"saved", "hst"}}}}},
      "plan.placements[1].saved: unknown place 'hst'; did you mean 'host'? Known: keep, recompute, host, disk");
  check_refused({{"placements", {good, good}}}, "plan.placements has op 1 twice; one placement an op");
}

TEST_CASE("compatibility flags of a plan are in its transfer settings or in its saves") {
  Plan plan;
  plan.placements = {{1, "a", {TensorPlacement::host}, TensorPlacement::recompute}};
  CHECK_FALSE(has_compatibility_flags(plan));
  plan.placements[0].saves = TensorPlacement::host;
  CHECK(has_compatibility_flags(plan));
  CHECK(offloads_each_save(plan));
  plan = {};
  plan.transfer.compatibility.whole_blocks = true;
  CHECK(has_compatibility_flags(plan));
  CHECK_FALSE(offloads_each_save(plan));
}

}  // namespace memtune::plan_test
