#include "core/answer/report/gain_over_user_config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

using result::TrialResultRow;

const TrialResultRow* recommended(const Report& report) {
  const auto found = std::ranges::find_if(report.rows, &TrialResultRow::recommended);
  return found == report.rows.end() ? nullptr : &*found;
}

// What the user has now, even if it failed: the unchanged command, or the strategy of the config.
const TrialResultRow* own(const Report& report) {
  const TrialResultRow* chosen = recommended(report);
  const auto found = std::ranges::find_if(report.rows, [&](const TrialResultRow& row) {
    return (row.base && !row.command.empty()) ||
           (!report.own_strategy.empty() && row.measurement.strategy == report.own_strategy &&
            (!chosen || same_axes(row, *chosen)));
  });
  return found == report.rows.end() ? nullptr : &*found;
}

// "own", or "checkpoint:full (mine.yml now)".
std::string named(const Report& report, const TrialResultRow& own) {
  return own.measurement.strategy + (report.own_config.empty() ? "" : " (" + report.own_config + " now)");
}

const char* per_work(result::WorkUnit work) {
  return work == result::WorkUnit::step ? "a step" : work == result::WorkUnit::sample ? "a sample" : "a token";
}

std::string time_text(const Report& report, const GainOverUserConfig& gain) {
  const std::string than = named(report, *gain.over);
  const double percent = 100 * std::abs(1 - gain.time.value);
  const bool unclear = gain.time.low <= 1 && gain.time.high >= 1;
  if ((unclear && gain.time.value <= result::kMostNoise) || percent < 0.05)
    return "is as fast as " + than + " within the noise";
  return "takes " + fixed(percent, percent < 10 ? 1 : 0) + " % " + (gain.time.value < 1 ? "less" : "more") + " time " +
         per_work(result::WorkNormalizedTrialComparator(report.rows).work()) + " than " + than +
         (unclear ? " (the noise is larger)" : "");
}

std::string peak_change_text(int64_t more) {
  if (more == 0) return "the same peak";
  return format_bytes(std::abs(more)) + (more < 0 ? " less" : " more") + " at the peak";
}

std::string what_is_gained(const Report& report, const TrialResultRow& row, const TrialResultRow& base) {
  const std::string& name = row.measurement.strategy;
  if (&row == &base) return "nothing that was tried is a better choice than " + named(report, row);
  if (const auto over = gain(report))
    return name + " " + time_text(report, *over) + ", with " + peak_change_text(over->peak_bytes);
  return name + " works, and " + named(report, base) + " ended in " + to_string(base.measurement.outcome);
}

}  // namespace

std::optional<GainOverUserConfig> gain(const Report& report) {
  const TrialResultRow* row = recommended(report);
  const TrialResultRow* base = own(report);
  if (!row || !base || row == base || !result::usable(base->measurement)) return {};
  return GainOverUserConfig{base, result::WorkNormalizedTrialComparator(report.rows).ratio(*row, *base),
                            result::required_bytes(*row) - result::required_bytes(*base)};
}

std::string gain_text(const Report& report) {
  const TrialResultRow* row = recommended(report);
  const TrialResultRow* base = own(report);
  if (!row || !base || report.rows.size() < 2) return "";
  return what_is_gained(report, *row, *base) + (row->python.empty() ? "" : "; its plan is " + row->python) +
         (row->config.empty() || row == base ? "" : "; its config is " + row->config);
}

}  // namespace memtune::report
