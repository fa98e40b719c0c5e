#include "gui/model/analysis.h"

#include "core/answer/run/run_directory.h"

namespace memtune::gui {

std::optional<plan::Plan> read_plan(const Trial& trial) {
  return trial.plan_path().empty() ? std::nullopt : sweep::read_plan(trial.plan_path());
}

std::vector<findings::Finding> find_in(const Trial& trial) {
  if (!trial.has_trace()) return {};
  const std::optional<plan::Plan> plan = read_plan(trial);
  return findings::find(trial.load().trace, trial.row().measurement, plan ? &*plan : nullptr);
}

HeldState held_at(const LoadedTrace& loaded, size_t trial, int64_t time_ns) {
  const trace::TraceEvent* region = trace::region_at(loaded.trace, time_ns);
  return {trial, time_ns, region ? loaded.trace.names[region->name] : "", trace::held_values(loaded.trace, time_ns)};
}

}  // namespace memtune::gui
