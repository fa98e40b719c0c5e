#include "core/planner/kept_costs.h"

#include <algorithm>
#include <utility>

#include "core/planner/step_playback.h"

namespace memtune::planner {
namespace {

using config::StepCosts;

// Allocated memory is never negative, whatever a file says.
int64_t sum(int64_t beside, int64_t held) { return std::max<int64_t>(0, beside + held); }

void keep_bytes(const StepBeside& beside, const StepBeside& held, StepCosts& costs) {
  for (size_t i = 0; i < costs.runs.size(); ++i)
    costs.runs[i].before_bytes = sum(beside.runs[i].before_bytes, held.runs[i].before_bytes);
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    StepCosts::Moment& moment = costs.moments[i];
    moment.before_bytes = sum(beside.moments[i].before_bytes, held.moments[i].before_bytes);
    moment.peak_bytes = sum(beside.moments[i].peak_bytes, held.moments[i].peak_bytes);
  }
  costs.before_peak_bytes = sum(beside.before_peak_bytes, held.before_peak_bytes);
  costs.after_peak_bytes = sum(beside.after_peak_bytes, held.after_peak_bytes);
}

double paper_rerun_ms(const StepTables& tables, const StepBeside& beside, const StepCosts& costs) {
  tier::LearnedSchedule schedule;
  BlockCache cache(costs.grain_bytes);
  StepPlayback recorded(tables, costs, beside, costs.plan, schedule, cache);
  recorded.play();
  return recorded.values().rerun_ms();
}

// By a step that keeps everything, as each later one.
StepBeside all_held(const StepTables& tables, const StepBeside& beside, const StepCosts& costs) {
  constexpr int kSteps = 2;
  const config::Plan everything;
  tier::LearnedSchedule schedule;
  BlockCache cache(costs.grain_bytes);
  StepBeside held;
  for (int step = 0; step < kSteps; ++step) {
    StepPlayback kept(tables, costs, beside, everything, schedule, cache);
    kept.play();
    held = kept.held();
  }
  return held;
}

}  // namespace

StepCosts kept_costs(const config::ProgramFacts& facts, StepCosts costs) {
  if (costs.plan.keeps_everything()) return costs;
  const StepTables tables(facts, costs);
  const StepBeside beside = find_beside(tables, costs);
  const double paper_ms = paper_rerun_ms(tables, beside, costs), rerun_ms = tables.scale * costs.rerun_ms;
  keep_bytes(beside, all_held(tables, beside, costs), costs);
  if (paper_ms > 0) costs.rerun_ratio *= rerun_ms / paper_ms;
  costs.step_ms -= costs.passes * rerun_ms;
  costs.rerun_ms = 0;
  costs.plan = {};
  return costs;
}

}  // namespace memtune::planner
