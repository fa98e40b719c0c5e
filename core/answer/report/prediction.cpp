#include "core/answer/report/prediction.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

using result::TrialResultRow;

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

std::string ms(double ms) { return fixed(ms, digits_for(ms)) + " ms"; }

}  // namespace

bool has_predictions(const Report& report) {
  return std::ranges::any_of(report.rows, [](const TrialResultRow& row) { return row.predicted.has_value(); });
}

std::string predictions_text(const Report& report) {
  const result::PredictionErrorSummary errors = result::prediction_errors(report.rows);
  if (errors.trials == 0) return "";
  const auto failed =
      std::ranges::count_if(report.rows, [](const TrialResultRow& row) { return row.predicted && !worked(row); });
  const std::string others = failed == 0 ? "" : "; " + std::to_string(failed) + " more did not work";
  if (errors.trials == 1)
    return "1 trial: step time off by " + percent(errors.step_most) + ", the peak by " + percent(errors.peak_most) +
           others;
  return std::to_string(errors.trials) + " trials: step time off by " + percent(errors.step_median) +
         " in the median and " + percent(errors.step_most) + " at most, the peak by " + percent(errors.peak_median) +
         " and " + percent(errors.peak_most) + others;
}

std::vector<std::string> bounds_text(const Report& report) {
  std::vector<std::string> lines;
  for (const TrialResultRow& row : report.rows)
    if (row.predicted && row.predicted->least_ms > 0)
      lines.push_back(label(row) + ": " + ms(row.predicted->step_ms) +
                      " predicted; the lower bound for this memory is " + ms(row.predicted->least_ms));
  return lines;
}

std::optional<result::ExtraMemoryBenefit> benefit_of_more_memory(const Report& report) {
  const auto chosen = std::ranges::find_if(report.rows, &TrialResultRow::recommended);
  if (chosen == report.rows.end() || report.goal != result::RecommendationGoal::throughput) return {};
  return result::benefit_of_more_memory(report.rows, *chosen, report.budget_bytes);
}

std::string more_memory_text(const Report& report) {
  const auto price = benefit_of_more_memory(report);
  if (!price) return "";
  constexpr double kGiB = 1 << 30;
  const int64_t peak = result::required_bytes(*price->row);
  const ByteDisplayUnit unit = unit_for(peak);
  return std::string("each ") + unit.name + " more would save " + short_ms_text(price->ms_per_gib * unit.bytes / kGiB) +
         " a step, up to " + format_bytes(peak) + " (" + price->row->measurement.strategy + ": " +
         ms(price->row->measurement.step_ms.median) + ")";
}

}  // namespace memtune::report
