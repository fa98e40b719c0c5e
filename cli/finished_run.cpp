#include "cli/finished_run.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::cli {

FinishedRun open_run(const std::string& path) {
  const sweep::RunDirectory directory(path);
  return {directory, sweep::make_report(directory, directory.read_record())};
}

const report::Row& find_row(const report::Report& report, const std::string& strategy) {
  const report::Row* found = nullptr;
  std::vector<std::string> names;
  for (const report::Row& row : report.rows) {
    const std::string& name = row.measurement.strategy;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (strategy.empty() ? !row.recommended : name != strategy) continue;
    const bool better =
        !found || row.recommended || (!sweep::usable(found->measurement) && sweep::usable(row.measurement));
    if (better && !(found && found->recommended)) found = &row;
  }
  if (found) return *found;
  if (strategy.empty()) throw UsageError("there is no recommendation: " + report.recommendation.reason);
  throw UsageError(unknown_name("trial", strategy, names));
}

}  // namespace memtune::cli
