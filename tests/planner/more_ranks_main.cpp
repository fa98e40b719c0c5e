// memtune-more-ranks FEW MORE RANKS: predicts the memory of the plans of the run MORE on RANKS ranks, one JSON object
// per line. FEW is a run of the same model on another number of ranks. Both runs have `none`.
//
// At each moment of a step, the values and gathered units of a rank do not depend on the number of ranks. The rest are
// its shards of parameters, gradients and optimizer states: a whole divided by the ranks. Two numbers of ranks give
// both parts. Times are not predicted, because the time of a gather depends on the network.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/plan/planner/costs_without_recompute.h"
#include "core/plan/planner/step_predictor.h"

using namespace memtune;
using nlohmann::json;
using plan::StepCosts;
namespace fs = std::filesystem;

namespace {

json read(const fs::path& file) {
  std::ifstream stream(file);
  return json::parse(stream);
}

StepCosts costs_of(const fs::path& run, const plan::ProgramFacts& facts) {
  for (const auto& trial : fs::directory_iterator(run / "trials"))
    if (const fs::path file = trial.path() / "costs.json"; fs::exists(file))
      return planner::costs_without_recompute(facts, read(file));
  throw std::runtime_error(run.string() + " has no costs.json");
}

class RankScale {
 public:
  RankScale(int few, int more, int ranks) : few_(few), more_(more), ranks_(ranks) {}
  // Changes `bytes` of the first run to those on `ranks` ranks. `more`: the same bytes in the second run.
  void operator()(int64_t& bytes, int64_t more) const {
    const double whole = static_cast<double>(bytes - more) / (1 / few_ - 1 / more_);
    bytes = more + std::llround(whole * (1 / ranks_ - 1 / more_));
  }

 private:
  double few_, more_, ranks_;
};

StepCosts costs_at(const StepCosts& few, const StepCosts& more, int ranks) {
  const StepCosts::Sharding &a = few.sharding, &b = more.sharding;
  if (a.ranks == b.ranks || few.runs.size() != more.runs.size() || few.moments.size() != more.moments.size() ||
      a.reads.size() != b.reads.size() || a.reshard != b.reshard)
    throw std::runtime_error("the runs are not of one model on two numbers of ranks");
  const RankScale scale(a.ranks, b.ranks, ranks);
  StepCosts costs = few;
  costs.sharding.ranks = ranks;
  scale(costs.start_bytes, more.start_bytes);
  scale(costs.before_peak_bytes, more.before_peak_bytes);
  scale(costs.after_peak_bytes, more.after_peak_bytes);
  for (size_t i = 0; i < costs.runs.size(); ++i) scale(costs.runs[i].before_bytes, more.runs[i].before_bytes);
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    scale(costs.moments[i].before_bytes, more.moments[i].before_bytes);
    scale(costs.moments[i].peak_bytes, more.moments[i].peak_bytes);
  }
  for (size_t i = 0; i < costs.sharding.reads.size(); ++i) {
    scale(costs.sharding.reads[i].before_bytes, b.reads[i].before_bytes);
    scale(costs.sharding.reads[i].peak_bytes, b.reads[i].peak_bytes);
  }
  return costs;
}

// Returns the traffic of a ring, in which each rank passes on one part of a unit after another.
json ring(const StepCosts& costs, int64_t gathered_bytes, int64_t reduced_bytes) {
  const int ranks = costs.sharding.ranks;
  json message_bytes;  // by unit
  for (const StepCosts::Unit& unit : costs.sharding.units) message_bytes[unit.name] = unit.bytes / ranks;
  return {{"received_bytes", (gathered_bytes + reduced_bytes) / ranks * (ranks - 1)},  // by each rank, per step
          {"messages", ranks - 1},                                                     // to each rank in one gather
          {"message_bytes", message_bytes}};
}

void tell(const fs::path& few, const fs::path& more, int ranks) {
  const plan::ProgramFacts facts = read(more / "sweep.json")["facts"];
  const StepCosts costs = costs_at(costs_of(few, facts), costs_of(more, facts), ranks);
  const planner::StepPredictor model(facts, costs);
  for (const auto& trial : fs::directory_iterator(more / "trials")) {
    if (!fs::exists(trial.path() / "measurement.json")) continue;
    const plan::Plan plan = read(trial.path() / "plan.json");
    const planner::StepPrediction step = model.predict(plan);
    const int64_t reduced = read(trial.path() / "measurement.json")["communication"]["reduced_bytes"];
    const json line = {{"strategy", plan.strategy},
                       {"ranks", ranks},
                       {"start_bytes", costs.start_bytes},
                       {"peak_bytes", step.peak_bytes},
                       {"gathered_bytes", step.gathered_bytes},
                       {"ring", ring(costs, step.gathered_bytes, reduced)}};
    std::puts(line.dump().c_str());
  }
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 4) return 2;
  tell(arguments[1], arguments[2], std::stoi(arguments[3]));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "memtune-more-ranks: %s\n", error.what());
  return 2;
}
