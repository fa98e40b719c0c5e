#include "core/planner/step_model.h"

#include <algorithm>

#include "core/planner/step_playback.h"

namespace memtune::planner {
namespace {

using config::StepCosts;

StepBeside nothing(const StepCosts& costs) {
  StepBeside none;
  none.runs.resize(costs.runs.size());
  none.moments.resize(costs.moments.size());
  return none;
}

// Where a saved tensor ends the most until the next moment may be what was there before; then nobody saw what it was
// once the tensor was gone, but for what the next moment found.
int64_t peak_behind(const StepCosts& costs, size_t moment, int64_t freed) {
  const StepCosts::Moment& now = costs.moments[moment];
  if (now.peak_bytes > now.before_bytes || freed == 0) return now.peak_bytes;
  const int64_t next = moment + 1 < costs.moments.size() ? costs.moments[moment + 1].before_bytes : 0;
  return std::max(now.before_bytes - freed, next);
}

StepBeside beside(const StepCosts& costs, const StepBeside& held) {
  StepBeside beside = nothing(costs);
  for (size_t i = 0; i < costs.runs.size(); ++i)
    beside.runs[i].before_bytes = costs.runs[i].before_bytes - held.runs[i].before_bytes;
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    const auto& [before, behind] = held.moments[i];
    beside.moments[i] = {costs.moments[i].before_bytes - before, peak_behind(costs, i, before - behind) - behind};
  }
  beside.before_peak_bytes = costs.before_peak_bytes - held.before_peak_bytes;
  beside.after_peak_bytes = costs.after_peak_bytes - held.after_peak_bytes;
  return beside;
}

bool moves(const config::Plan& plan) { return plan.places(config::Place::host) || plan.places(config::Place::disk); }

}  // namespace

StepModel::StepModel(const config::ProgramFacts& facts, const StepCosts& costs) : costs_(costs), tables_(facts, costs) {
  tier::LearnedSchedule schedule;
  const config::Plan keep;
  const StepBeside none = nothing(costs);
  StepPlayback playback(tables_, costs, none, keep, schedule);
  playback.play();
  beside_ = beside(costs, playback.held());
}

StepPrediction StepModel::predict(const config::Plan& plan, StepLog* log) const {
  tier::LearnedSchedule schedule;
  if (moves(plan)) {
    StepPlayback first(tables_, costs_, beside_, plan, schedule);
    first.forward();
    schedule.begin_learning();
    StepPlayback learning(tables_, costs_, beside_, plan, schedule, first.copies().largest_bytes());
    learning.play();
    schedule.end_learning(learning.forward_peak(), learning.memory().stretch_peak());
  }
  StepPlayback playback(tables_, costs_, beside_, plan, schedule);
  playback.keep_log(log);
  playback.play();
  const int passes = costs_.passes;
  const StepClock& clock = playback.clock();
  const StepValues& values = playback.values();
  const CopyQueue& copies = playback.copies();
  const double hidden_ms = std::max(0.0, copies.copy_ms() - clock.waited);
  return {.step_ms = costs_.step_ms + passes * (values.rerun_ms() + clock.waited + costs_.copy_slowdown * hidden_ms),
          .peak_bytes = std::max(schedule.goal_bytes(), playback.memory().peak()),
          .recomputed_ops = passes * values.reruns(),
          .recomputed_bytes = passes * values.made_bytes(),
          .recompute_ms = passes * values.rerun_ms(),
          .out_bytes = passes * copies.out_bytes(),
          .in_bytes = passes * copies.in_bytes(),
          .wait_ms = passes * clock.waited,
          .host_peak_bytes = copies.host_peak_bytes()};
}

}  // namespace memtune::planner
