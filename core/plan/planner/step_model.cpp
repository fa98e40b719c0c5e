#include "core/plan/planner/step_model.h"

#include <algorithm>

#include "core/base/bounds.h"
#include "core/plan/planner/step_playback.h"

namespace memtune::planner {

StepModel::StepModel(const plan::ProgramFacts& facts, const plan::StepCosts& costs)
    : costs_(costs), tables_(facts, costs), beside_(find_beside(tables_, costs)) {}

StepPrediction StepModel::predict(const plan::Plan& plan, const StepTiers& tiers, StepLog* log) const {
  schedule::LearnedSchedule schedule;
  StepPlayback::Before before;
  int64_t host_bytes = 0, disk_bytes = 0;  // peaks over all steps
  const auto note = [&](const StepPlayback& step) {
    before = step.before_next();
    host_bytes = std::max(host_bytes, step.tier().host_peak_bytes());
    disk_bytes = std::max(disk_bytes, step.tier().disk_peak_bytes());
  };
  BlockCache cache(costs_.grain_bytes);
  if (plan.moves() || costs_.grain_bytes > 1 || costs_.sharded()) {
    StepPlayback first(tables_, costs_, beside_, plan, schedule, cache, tiers, before);
    // A sharded step learns the order of gathers in backward, so it is simulated as a whole.
    if (plan.moves() && !costs_.sharded())
      first.forward();
    else
      first.play();
    note(first);
  }
  if (plan.moves()) {
    schedule.begin_learning();
    StepPlayback learning(tables_, costs_, beside_, plan, schedule, cache, tiers, before);
    learning.play();
    note(learning);
    schedule.end_learning(learning.forward_peak(), learning.memory().stretch_peak());
  }
  StepPlayback playback(tables_, costs_, beside_, plan, schedule, cache, tiers, before);
  playback.keep_log(log);
  playback.play();
  note(playback);
  const int passes = costs_.passes;
  const StepClock& clock = playback.clock();
  const StepValues& values = playback.values();
  const CopyQueue& copies = playback.copies();
  const double hidden_ms = std::max(0.0, copies.copy_ms() - clock.waited);
  // Waits for gathers beyond those of a step with everything kept.
  const double gather_wait_ms = playback.gathers().waited_ms() - beside_.gather_wait_ms;
  const bool gathers_once = schedule::parse_reshard(costs_.sharding.reshard) == schedule::Reshard::never;
  return {.step_ms = costs_.step_ms +
                     passes * (values.rerun_ms() + clock.waited + gather_wait_ms + costs_.copy_slowdown * hidden_ms),
          .peak_bytes = std::max(schedule.goal_bytes(), playback.memory().peak()),
          .recomputed_ops = bounded_product(passes, values.reruns()),
          .recomputed_bytes = bounded_product(passes, values.made_bytes()),
          .recompute_ms = passes * values.rerun_ms(),
          .out_bytes = bounded_product(passes, copies.out_bytes()),
          .in_bytes = bounded_product(passes, copies.in_bytes()),
          .wait_ms = passes * clock.waited,
          .host_peak_bytes = host_bytes,
          .disk_write_bytes = bounded_product(passes, playback.tier().disk_write_bytes()),
          .disk_read_bytes = bounded_product(passes, playback.tier().disk_read_bytes()),
          .disk_peak_bytes = disk_bytes,
          .gathered_bytes = bounded_product(gathers_once ? 1 : passes, playback.gathers().gathered_bytes())};
}

}  // namespace memtune::planner
