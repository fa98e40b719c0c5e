#include "core/planner/step_model.h"

#include <algorithm>

#include "core/planner/step_playback.h"

namespace memtune::planner {

StepModel::StepModel(const config::ProgramFacts& facts, const config::StepCosts& costs)
    : costs_(costs), tables_(facts, costs), beside_(find_beside(tables_, costs)) {}

StepPrediction StepModel::predict(const config::Plan& plan, StepLog* log) const {
  tier::LearnedSchedule schedule;
  if (plan.moves()) {
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
