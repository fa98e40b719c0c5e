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
    moment.peak_bytes = std::max(moment.before_bytes, sum(beside.moments[i].peak_bytes, held.moments[i].peak_bytes));
  }
  costs.before_peak_bytes = sum(beside.before_peak_bytes, held.before_peak_bytes);
  costs.after_peak_bytes = sum(beside.after_peak_bytes, held.after_peak_bytes);
}

}  // namespace

StepCosts kept_costs(const config::ProgramFacts& facts, StepCosts costs) {
  if (costs.plan.keeps_everything()) return costs;
  const StepTables tables(facts, costs);
  const StepBeside beside = find_beside(tables, costs);
  tier::LearnedSchedule schedule;
  StepPlayback recorded(tables, costs, beside, costs.plan, schedule);
  recorded.play();
  const double paper_ms = recorded.values().rerun_ms(), rerun_ms = tables.scale * costs.rerun_ms;
  const config::Plan everything;
  StepPlayback kept(tables, costs, beside, everything, schedule);
  kept.play();
  keep_bytes(beside, kept.held(), costs);
  if (paper_ms > 0) costs.rerun_ratio *= rerun_ms / paper_ms;
  costs.step_ms -= costs.passes * rerun_ms;
  costs.rerun_ms = 0;
  costs.plan = {};
  return costs;
}

}  // namespace memtune::planner
