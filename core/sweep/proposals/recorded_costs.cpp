#include "core/sweep/proposals/recorded_costs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/confined_file_system.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/plan/planner/costs_without_recompute.h"
#include "core/plan/planner/step_predictor.h"
#include "core/plan/rules/plan_check.h"
#include "core/sweep/ranks/rank_trials.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

// Checks the costs against the program. Throws UsageError for a placement that the program does not have.
bool make_sense(const plan::RecordedStepCosts& costs, const plan::ProgramFacts& program) {
  const auto known = [&](const plan::RecordedStepCosts::Run& run) {
    return run.op < static_cast<int>(program.ops.size());
  };
  if (costs.runs.empty() || costs.moments.empty() || !std::ranges::all_of(costs.runs, known)) return false;
  for (const plan::OneOpActivationPlacements& placement : costs.plan.placements)
    plan::check_placement(placement, program);
  return true;
}

plan::RecordedStepCosts parse_costs(const std::filesystem::path& file, FileSystem& folder) try {
  return parse_json(read_file(file, folder)).get<plan::RecordedStepCosts>();
} catch (const Error& error) {
  throw UsageError(file.filename().string() + ": " + error.what());
} catch (const json::exception& error) {
  throw UsageError(file.filename().string() + ": " + error.what());
}

}  // namespace

std::optional<plan::RecordedStepCosts> read_costs(const std::filesystem::path& trial_folder,
                                                  const plan::ProgramFacts& program, std::string* why) try {
  const auto none = [&](const std::string& reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  ConfinedFileSystem folder(trial_folder);
  const std::filesystem::path file = trial_folder / "costs.json";
  std::optional<plan::RecordedStepCosts> most;
  int64_t most_bytes = -1;
  for (int rank = 0, ranks = 1; rank < ranks; ++rank) {
    const std::filesystem::path of_rank = costs_of_rank(file, rank);
    if (!std::filesystem::exists(of_rank))
      return none("no costs of its steps were recorded (they ran different ops, or its log says why)");
    const plan::RecordedStepCosts costs = parse_costs(of_rank, folder);
    if (!make_sense(costs, program)) return none(of_rank.filename().string() + " is of another program");
    if (rank == 0) ranks = costs.sharding.ranks;
    if (costs.sharding.rank != rank || costs.sharding.ranks != ranks)
      return none(of_rank.filename().string() + " is of another run");
    plan::RecordedStepCosts kept = planner::costs_without_recompute(program, costs);
    const int64_t bytes = planner::StepPredictor(program, kept).predict({}).peak_bytes;
    if (bytes <= most_bytes) continue;
    most_bytes = bytes;
    most = std::move(kept);
  }
  return most;
} catch (const Error& error) {
  if (why) *why = error.what();
  return {};
}

}  // namespace memtune::sweep
