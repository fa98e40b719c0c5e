#include "core/answer/report/alternatives.h"

#include <algorithm>
#include <iterator>

#include "core/answer/result/effect.h"
#include "core/answer/result/recommend.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

using result::TrialResultRow;
using Rows = std::vector<const TrialResultRow*>;

std::string figures(const TrialResultRow& row) {
  return row.measurement.strategy + ", " + ms_text(row.measurement.step_ms.median) + " at " +
         format_bytes(required_bytes(row));
}

// Why the last failed row failed. A plan that failed is replaced by a later one, so the last row is the most current.
std::string why_none(const Rows& rows) {
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const result::TrialMeasurement& m = (*row)->measurement;
    if (m.outcome != result::TrialOutcome::ok)
      return m.strategy + " ended in " + to_string(m.outcome) + (m.reason.empty() ? "" : ": " + m.reason);
    if (m.losses.changed) return m.strategy + " trains differently from " + m.losses.against;
  }
  return "nothing was measured";
}

void fill(const Report& report, const Rows& rows, BestTrialWithTrainerSettingsOrPythonPlan& alternative) {
  const Rows chosen = result::choices(rows);
  Rows fitting;
  if (chosen.empty()) {
    alternative.text = why_none(rows);
    return;
  }
  const result::WorkNormalizedTrialComparator ranking{std::span<const TrialResultRow>(report.rows)};
  std::ranges::copy_if(chosen, std::back_inserter(fitting), [&](const TrialResultRow* row) {
    return report.budget_bytes <= 0 || required_bytes(*row) <= report.budget_bytes;
  });
  alternative.fits = !fitting.empty();
  alternative.row = alternative.fits ? &result::choose(fitting, ranking, report.goal)
                                     : &result::choose(chosen, ranking, result::RecommendationGoal::memory);
  alternative.text = alternative.fits ? figures(*alternative.row)
                                      : "no measured trial fits " + format_bytes(report.budget_bytes) +
                                            "; the smallest is " + figures(*alternative.row);
}

}  // namespace

std::vector<BestTrialWithTrainerSettingsOrPythonPlan> alternatives(const Report& report) {
  if (!report.planned) return {};
  Rows settings, plans;
  for (const TrialResultRow& row : report.rows)
    if (row.measurement.outcome != result::TrialOutcome::skipped)
      (row.python.empty() ? settings : plans).push_back(&row);
  BestTrialWithTrainerSettingsOrPythonPlan keys{report.trainer.empty() ? "As it is" : "In keys of " + report.trainer,
                                                ""};
  fill(report, settings, keys);
  BestTrialWithTrainerSettingsOrPythonPlan plan{"With memtune_plan.py", "", true};
  if (plans.empty())
    plan.text = report.no_plan.empty() ? "nothing was measured" : report.no_plan;
  else
    fill(report, plans, plan);
  return {keys, plan};
}

}  // namespace memtune::report
