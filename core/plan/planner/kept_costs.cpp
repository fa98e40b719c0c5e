#include "core/plan/planner/kept_costs.h"

#include <algorithm>
#include <utility>

#include "core/plan/planner/step_playback.h"

namespace memtune::planner {
namespace {

using plan::StepCosts;

// Allocated memory is never negative, even if a file contains such numbers.
int64_t sum(int64_t beside, int64_t held) { return std::max<int64_t>(0, beside + held); }

void keep_bytes(const StepBeside& beside, const StepBeside& held, StepCosts& costs) {
  for (size_t i = 0; i < costs.runs.size(); ++i)
    costs.runs[i].before_bytes = sum(beside.runs[i].before_bytes, held.runs[i].before_bytes);
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    StepCosts::Moment& moment = costs.moments[i];
    moment.before_bytes = sum(beside.moments[i].before_bytes, held.moments[i].before_bytes);
    moment.peak_bytes = sum(beside.moments[i].peak_bytes, held.moments[i].peak_bytes);
  }
  for (size_t i = 0; i < costs.sharding.reads.size(); ++i) {
    StepCosts::UnitRead& read = costs.sharding.reads[i];
    read.before_bytes = sum(beside.reads[i].before_bytes, held.reads[i].before_bytes);
    read.peak_bytes = sum(beside.reads[i].peak_bytes, held.reads[i].peak_bytes);
  }
  costs.before_peak_bytes = sum(beside.before_peak_bytes, held.before_peak_bytes);
  costs.after_peak_bytes = sum(beside.after_peak_bytes, held.after_peak_bytes);
}

// Calls `see` after each of two simulated steps; the second is like all later ones.
template <class See>
void play_twice(const StepTables& tables, const StepBeside& beside, const StepCosts& costs, const plan::Plan& plan,
                See see) {
  schedule::LearnedSchedule schedule;
  BlockCache cache(costs.grain_bytes);
  StepPlayback::Before before;
  for (int step = 0; step < 2; ++step) {
    StepPlayback playback(tables, costs, beside, plan, schedule, cache, {}, before);
    playback.play();
    before = playback.before_next();
    see(playback);
  }
}

struct Recorded {
  double rerun_ms = 0, gather_wait_ms = 0, wait_in_reruns_ms = 0;
};

Recorded play_recorded(const StepTables& tables, const StepBeside& beside, const StepCosts& costs) {
  Recorded recorded;
  play_twice(tables, beside, costs, costs.plan, [&](const StepPlayback& step) {
    const StepGathers& gathers = step.gathers();
    recorded = {step.values().rerun_ms(), gathers.waited_ms(), gathers.waited_in_reruns_ms()};
  });
  return recorded;
}

StepBeside all_held(const StepTables& tables, const StepBeside& beside, const StepCosts& costs) {
  StepBeside held;
  play_twice(tables, beside, costs, {}, [&](const StepPlayback& step) { held = step.held(); });
  return held;
}

}  // namespace

StepCosts kept_costs(const plan::ProgramFacts& facts, StepCosts costs) {
  if (costs.plan.keeps_everything()) return costs;
  const StepTables tables(facts, costs);
  const StepBeside beside = find_beside(tables, costs);
  const Recorded recorded = play_recorded(tables, beside, costs);
  const StepBeside kept = all_held(tables, beside, costs);
  keep_bytes(beside, kept, costs);
  const double rerun_ms = tables.scale * costs.rerun_ms;  // as recorded, waits for gathers included
  if (recorded.rerun_ms > 0)
    costs.rerun_ratio *= std::max(0.0, rerun_ms - recorded.wait_in_reruns_ms) / recorded.rerun_ms;
  const double other_waits_ms = recorded.gather_wait_ms - recorded.wait_in_reruns_ms;
  costs.step_ms -= costs.passes * (rerun_ms + other_waits_ms - kept.gather_wait_ms);
  costs.rerun_ms = 0;
  costs.plan = {};
  return costs;
}

}  // namespace memtune::planner
