#include "gui/analysis.h"

#include <nlohmann/json.hpp>

#include "core/base/file.h"

namespace memtune::gui {

std::optional<config::Plan> read_plan(const Trial& trial) try {
  if (trial.plan_path().empty()) return {};
  return nlohmann::json::parse(read_file(trial.plan_path())).get<config::Plan>();
} catch (const std::exception&) {
  return {};
}

std::vector<report::Finding> find_in(const Trial& trial) {
  if (!trial.has_trace()) return {};
  const std::optional<config::Plan> plan = read_plan(trial);
  return report::find(trial.load().trace, trial.row().measurement, plan ? &*plan : nullptr);
}

}  // namespace memtune::gui
