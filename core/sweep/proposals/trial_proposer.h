// Decides which trials a sweep runs next. The loop asks, runs the trials, and asks again with their measurements.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plan/strategy/plan.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/measurement/trial_prediction.h"
#include "core/sweep/proposals/candidate_strategies_and_user_plan_files.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

inline constexpr char kCommonStrategy[] = "checkpoint:full";  // a strategy that every trainer supports

// One point of the axes with the model's facts there: sizes and ops depend on batch and sequence.
struct InspectedModelAtShape {
  std::optional<int64_t> batch, sequence;  // empty: as in the inputs
  ModelInspectionResult facts;
};

struct TrialProposal {
  std::string name;    // of the strategy or the plan
  size_t setting = 0;  // index into the sweep's settings
  plan::Plan plan;     // made from that setting's facts
  std::optional<result::TrialPrediction> predicted = {};
  bool costs = false;  // it records its step costs
  // Replaces the setting's batch: the trial moves to the setting of that batch, inspected if new.
  std::optional<int64_t> batch = {};
  bool expandable_segments = false;  // without that, free memory is predicted to be in pieces that are too small
};

// A proposal that has been run, successful or not.
struct FinishedProposal {
  std::string name;
  size_t setting = 0;
  result::TrialMeasurement measurement;
  std::filesystem::path folder = {};  // with the files of its process
};

class TrialProposer {
 public:
  virtual ~TrialProposer() = default;
  // Returns the trials to run next, in order; an empty list ends the sweep. `tried`: all trials so far, in the order
  // they ran. The first call throws UsageError for errors of the user.
  virtual std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) = 0;
  // Predicted steps of the best plans over a range of budgets, as far as known, smallest peak first. This takes
  // seconds: `begin` is called with the number of the budget being planned, from 1 on, and how many there are.
  using Begin = std::function<void(size_t budget, size_t budgets)>;
  virtual std::vector<result::TrialPrediction> frontier(size_t setting, const Begin& begin) {
    (void)setting, (void)begin;
    return {};
  }
  // Notes for the user from the last call of next().
  virtual std::vector<std::string> take_notes() { return {}; }
};

// Both arguments outlive the proposer.
using TrialProposerFactory = std::function<std::unique_ptr<TrialProposer>(
    const CandidateStrategiesAndUserPlanFiles& candidates, const std::vector<InspectedModelAtShape>& settings)>;

// All candidates at all settings at once, the baseline of a setting first. Throws one UsageError with all problems.
std::unique_ptr<TrialProposer> propose_all(const CandidateStrategiesAndUserPlanFiles& candidates,
                                           const std::vector<InspectedModelAtShape>& settings);

}  // namespace memtune::sweep
