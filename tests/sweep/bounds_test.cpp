// Every number that memtune reads has a bound, because figures are sums, products and quotients of them. A file with a
// number beyond its bound is refused with the field's name.
#include "core/base/bounds.h"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "core/answer/run/command_variants.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/plan/facts/machine_profile.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/record/measurement/state_save_mode_measurement.h"
#include "core/record/measurement/training.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/measurement/trial_prediction.h"

namespace memtune::bounds_test {

using namespace memtune;
using nlohmann::json;

namespace {

using Read = std::function<void(const json&)>;

// Returns the reader's error for a document, or "" if the reader accepts it.
std::string refusal(const Read& read, const json& document) {
  try {
    read(document);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Returns the field that a place belongs to: the last key that is neither an index nor "rows".
std::string name_of(const json::json_pointer& place) {
  json::json_pointer at = place;
  while (at.back().find_first_not_of("0123456789") == std::string::npos || at.back() == "rows") at.pop_back();
  return at.back();
}

// Checks that each number is refused beyond all bounds. `free` names the fields that may have any value.
void check_all_numbers(const json& document, const Read& read, const std::set<std::string>& free = {}) {
  REQUIRE(refusal(read, document) == "");
  int numbers = 0;
  const json flat = document.flatten();
  for (const auto& [path, value] : flat.items()) {
    const json::json_pointer place(path);
    const std::string name = name_of(place);
    if (!value.is_number() || free.contains(name)) continue;
    ++numbers;
    for (const int sign : {1, -1}) {
      json other = document;
      other[place] = value.is_number_float() ? json(sign * 1e300) : json(sign * int64_t{9'000'000'000'000'000'000});
      const std::string why = refusal(read, other);
      CAPTURE(name);
      CHECK(why.find(name) != std::string::npos);
    }
  }
  CHECK(numbers > 0);
}

template <typename Object>
void check_all_numbers(const Object& object, const std::set<std::string>& free = {}) {
  check_all_numbers(
      json(object), [](const json& document) { document.get<Object>(); }, free);
}

plan::RecordedStepCosts some_costs() {
  plan::RecordedStepCosts costs;
  costs.step_ms = 9.5;
  costs.values = {{0, 0, 64}, {1, -1, 32, 0}};
  costs.runs = {{0, 1.5, 0.5, 1000, 64, false, {}, {0}, {}, {}}, {3, 2.5, 0.25, 1064, 96, true, {0}, {1}, {0}, {0, 1}}};
  costs.saved = {{0, 1}, {1, 1}};
  costs.gradient_bytes = {0, 64};
  costs.moments = {{plan::RecordedStepCosts::Moment::Kind::unpack, 1, 3, 0.1, 1096, 1200}};
  costs.sharding = {2, 1, "always", 0.5, 900, {{"layers.0", 4096, 1.5}}, {{0, 1096, 1300, 0.125, {0}}}};
  costs.runs[1].units = {0};
  return costs;
}

}  // namespace

TEST_CASE("every number of a trial's results has a bound") {
  result::TrialMeasurement measurement;
  measurement.rounds.resize(1);
  measurement.rounds[0].step_ms.samples = measurement.rounds[0].loss = {1.5};
  measurement.ranks.resize(1);
  measurement.ranks[0].loss = measurement.loss = measurement.step_ms.samples = {1.5};
  measurement.recomputed_bytes = 9;
  check_all_numbers(measurement);
  result::StateSaveModeMeasurement save;
  save.slowdown = 1.5;
  check_all_numbers(save);
  check_all_numbers(result::TrialPrediction{1.5, 9, 1.25, 9, 9});
  result::PredictedFrontier frontier;
  frontier.batch = frontier.sequence = 2;
  frontier.plans = {{1.5, 9}};
  check_all_numbers(frontier);
  result::ResumableTrainingResult training;
  training.saves = {{1, 1.5, 2.5, 9, ""}};
  training.times_ms = {1.5};
  training.loss = {1.5};
  check_all_numbers(training, {"loss"});  // the loss has no bound there
}

TEST_CASE("every number of a training run request has a bound") {
  plan::ResumableTrainingRequest run;
  run.from = 3;
  run.trial.plan.placements = {{3, "mul", {plan::TensorPlacement::recompute}, plan::TensorPlacement::keep}};
  run.trial.plan.transfer.compatibility.learns = false;
  run.trial.training.ranks = 2;
  check_all_numbers(run, {"seed"});
}

TEST_CASE("every number of costs and machines and command sweeps has a bound") {
  check_all_numbers(some_costs());
  check_all_numbers(plan::find_machine("h100"));
  sweep::CommandSweepSettingsAndVariants commands;
  commands.warmup = commands.steps = 3;
  check_all_numbers(commands);
}

TEST_CASE("every number of a model's facts and the sum over its ops have bounds") {
  plan::ProgramFacts facts;
  facts.owner = {-1, 0};
  facts.blocks = {{"layers.0"}};
  plan::ProgramOpFacts op;
  op.name = "aten::mul";
  op.block = 0;
  op.inputs = {0};
  op.outputs = {1};
  op.output_bytes = {kMaxBytes};
  op.output_saved = {true};
  op.flops = 2.5;
  facts.ops = {op};
  facts.parameters = facts.parameter_bytes = facts.trained_bytes = 9;
  check_all_numbers(facts);
  op.output_bytes = {0};
  op.private_bytes = 1;
  facts.ops.push_back(op);
  CHECK(refusal([](const json& document) { document.get<plan::ProgramFacts>(); }, json(facts)) ==
        "facts.ops[1].private_bytes: all ops together have more than 1 PiB");
}

TEST_CASE("the total bytes of a step's values have a bound") {
  json costs = some_costs();
  costs["values"]["rows"][0][2] = costs["values"]["rows"][1][2] = (int64_t{1} << 45) + 1;
  CHECK(refusal([](const json& document) { document.get<plan::RecordedStepCosts>(); }, costs) ==
        "costs.values has more bytes than a step can move");
}

}  // namespace memtune::bounds_test
