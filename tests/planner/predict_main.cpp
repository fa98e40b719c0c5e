// memtune-predict RUN [COSTS [RANKS]]: predicts each trial of a run folder and prints predicted and measured figures,
// one JSON object per line. The costs are those that one of its trials recorded, or those of the file COSTS, converted
// to RANKS ranks. Times are the model's own unless stated otherwise.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/plan/planner/costs_without_recompute.h"
#include "core/plan/planner/rank_scaled_costs.h"
#include "core/plan/planner/step_predictor.h"

using namespace memtune;
using nlohmann::json;

namespace {

json read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return json::parse(stream);
}

json unmodelled(double predicted, double measured) {
  return {{"predicted", predicted},
          {"measured", measured},
          {"error", measured != 0 ? predicted / measured - 1 : predicted}};
}

json compare(const planner::StepPredictor& model, const std::filesystem::path& trial) {
  const plan::Plan plan = read(trial / "plan.json");
  const auto start = std::chrono::steady_clock::now();
  const json training = read(trial / "request.json")["training"];
  const planner::AllowedOffloadTiersAndHostBudget tiers{training.value("host_budget_bytes", int64_t{0}),
                                                        training.value("scratch", "") != ""};
  const planner::StepPrediction predicted = model.predict(plan, tiers);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const json measured = read(trial / "measurement.json");
  const json transfer = measured.value("transfer", json());
  const auto count = [](const json& object, const char* key) {  // 0 for what a failed trial did not measure
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  return {{"strategy", plan.strategy},
          {"predict_ms", took.count()},
          {"peak_bytes",
           unmodelled(double(predicted.peak_bytes), count(measured.value("peak_bytes", json()), "allocated"))},
          {"recomputed_ops", unmodelled(double(predicted.recomputed_ops), count(measured, "recomputed_ops"))},
          {"recomputed_bytes", unmodelled(double(predicted.recomputed_bytes), count(measured, "recomputed_bytes"))},
          {"out_bytes", unmodelled(double(predicted.out_bytes), count(transfer, "out_bytes"))},
          {"in_bytes", unmodelled(double(predicted.in_bytes), count(transfer, "in_bytes"))},
          {"host_peak_bytes", unmodelled(double(predicted.host_peak_bytes), count(measured, "host_peak_bytes"))},
          {"disk_write_bytes", unmodelled(double(predicted.disk_write_bytes), count(transfer, "disk_write_bytes"))},
          {"disk_read_bytes", unmodelled(double(predicted.disk_read_bytes), count(transfer, "disk_read_bytes"))},
          {"disk_peak_bytes", unmodelled(double(predicted.disk_peak_bytes), count(measured, "disk_peak_bytes"))},
          {"gathered_bytes", unmodelled(double(predicted.gathered_bytes),
                                        count(measured.value("communication", json()), "gathered_bytes"))},
          {"step_ms", unmodelled(predicted.step_ms, count(measured.value("step_ms", json()), "median"))}};
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2 || count > 4) return 2;
  const std::filesystem::path run = arguments[1];
  std::vector<std::filesystem::path> trials;
  plan::RecordedStepCosts costs;
  for (const auto& entry : std::filesystem::directory_iterator(run / "trials")) {
    if (std::filesystem::exists(entry.path() / "measurement.json")) trials.push_back(entry.path());
    if (std::filesystem::exists(entry.path() / "costs.json")) costs = read(entry.path() / "costs.json");
  }
  std::ranges::sort(trials);
  const plan::ProgramFacts facts = read(run / "sweep.json")["facts"];
  if (count >= 3) costs = read(arguments[2]);
  costs = planner::costs_without_recompute(facts, costs);
  if (count == 4) costs = planner::costs_on_ranks(costs, std::stoi(arguments[3]));
  const planner::StepPredictor model(facts, costs);
  for (const auto& trial : trials) std::puts(compare(model, trial).dump().c_str());
} catch (const std::exception& error) {  // a file that cannot be read
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
