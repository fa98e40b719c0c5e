#include "core/answer/run/run_directory_with_report.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/answer/findings/findings.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/strategy/plan.h"
#include "core/plan/strategy/strategy.h"
#include "core/record/trace/file.h"

namespace memtune::sweep {

RunDirectoryWithReport open_run(const std::string& path) {
  const RunDirectory directory(path);
  return {directory, make_report(directory, directory.read_record())};
}

void add_findings(const RunDirectory& directory, report::Report& report) try {
  if (report::is_of_commands(report)) report.findings = findings::variant_findings(report.rows);
  const auto row = std::ranges::find_if(report.rows, &result::TrialResultRow::recommended);
  if (row == report.rows.end() || row->measurement.trace.empty()) return;
  const trace::Trace trace = trace::read_trace(directory / row->measurement.trace).trace;
  const std::optional<plan::Plan> plan = read_plan(directory / row->measurement.plan);
  std::vector<findings::Finding> found = findings::find(trace, row->measurement, plan ? &*plan : nullptr);
  findings::mark_failed_alternatives(report.rows, *row, found);
  std::ranges::move(found, std::back_inserter(report.findings));
} catch (const std::exception&) {
  // Findings are optional. Commands that read the trace itself report its errors.
}

bool all_ended_in(const report::Report& report, result::TrialOutcome outcome) {
  const auto did = [&](const result::TrialResultRow& row) { return row.measurement.outcome == outcome; };
  return !report.rows.empty() && std::ranges::all_of(report.rows, did);
}

const result::TrialResultRow& find_row(const report::Report& report, const std::string& strategy) {
  const result::TrialResultRow* found = nullptr;
  const std::string wanted = plan::canonical_name(strategy);
  std::vector<std::string> names;
  for (const result::TrialResultRow& row : report.rows) {
    const std::string& name = row.measurement.strategy;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (strategy.empty() ? !row.recommended : name != wanted) continue;
    const bool better =
        !found || row.recommended || (!result::usable(found->measurement) && result::usable(row.measurement));
    if (better && !(found && found->recommended)) found = &row;
  }
  if (found) return *found;
  if (strategy.empty()) throw UsageError("there is no recommendation: " + report.recommendation.reason);
  throw UsageError(unknown_name("trial", strategy, names));
}

}  // namespace memtune::sweep
