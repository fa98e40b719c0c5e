#include "core/answer/result/work_normalized_trial_comparator.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace memtune::result {
namespace {

// In the order of Work. Token times are in µs.
constexpr struct {
  const char *title, *unit;
  double per_ms;
} kWorks[] = {{"step ms", "ms", 1}, {"ms a sample", "ms", 1}, {"µs a token", "µs", 1000}};

double time_of_one(double per_second) { return 1000 / per_second; }

bool counts(std::span<const TrialResultRow* const> rows, double TrialMeasurement::*rate) {
  return std::ranges::all_of(rows, [&](const TrialResultRow* row) { return row->measurement.*rate > 0; });
}

constexpr double kSame = 1.02;     // tolerance of samples per step, which are computed from times
constexpr double kPadding = 1.25;  // tolerance of tokens, which padding adds in larger batches

bool within(std::span<const TrialResultRow* const> rows, WorkUnit work, double times) {
  const auto of = [&](const TrialResultRow* row) { return amount(row->measurement, work); };
  const auto [least, most] = std::ranges::minmax(rows, {}, of);
  return of(most) <= times * of(least);
}

bool same_work(std::span<const TrialResultRow* const> rows) {
  if (!std::ranges::all_of(rows, [&](const TrialResultRow* row) { return same_axes(*row, *rows.front()); }))
    return false;
  if (rows.empty() || rows.front()->command.empty()) return true;  // trials of memtune have equal work at equal axes
  return within(rows, WorkUnit::sample, kSame) && within(rows, WorkUnit::token, kPadding);
}

WorkUnit common_work(std::span<const TrialResultRow* const> rows) {
  if (same_work(rows)) return WorkUnit::step;
  if (counts(rows, &TrialMeasurement::tokens_per_s)) return WorkUnit::token;
  return counts(rows, &TrialMeasurement::samples_per_s) ? WorkUnit::sample : WorkUnit::step;
}

}  // namespace

double amount(const TrialMeasurement& m, WorkUnit work) {
  if (work == WorkUnit::step) return 1;
  return (work == WorkUnit::sample ? m.samples_per_s : m.tokens_per_s) * m.step_ms.median / 1000;
}

double work_time(const TrialMeasurement& m, WorkUnit work) {
  const double ms = work == WorkUnit::step     ? m.step_ms.median
                    : work == WorkUnit::sample ? time_of_one(m.samples_per_s)
                                               : time_of_one(m.tokens_per_s);
  return ms > 0 ? ms : std::numeric_limits<double>::infinity();
}

bool worked(const TrialMeasurement& m) { return m.outcome == TrialOutcome::ok; }

bool ended_out_of_memory(const TrialMeasurement& m) {
  return m.outcome == TrialOutcome::device_oom || m.outcome == TrialOutcome::host_oom;
}

bool usable(const TrialMeasurement& m) { return worked(m) && std::isfinite(work_time(m, WorkUnit::step)); }

bool is_untimed(const TrialMeasurement& m) { return m.emulated && m.transfer.out_bytes > 0; }

bool is_eligible(const TrialMeasurement& m) { return usable(m) && !m.losses.changed; }

WorkNormalizedTrialComparator::WorkNormalizedTrialComparator(std::span<const TrialResultRow* const> rows) {
  std::ranges::copy_if(rows, std::back_inserter(rows_),
                       [](const TrialResultRow* row) { return usable(row->measurement); });
  work_ = common_work(rows_);
}

const char* WorkNormalizedTrialComparator::title() const { return kWorks[static_cast<size_t>(work_)].title; }
const char* WorkNormalizedTrialComparator::unit() const { return kWorks[static_cast<size_t>(work_)].unit; }

// The row that this row's rounds were compared with; the row itself if there is none.
const TrialResultRow* WorkNormalizedTrialComparator::base_of(const TrialResultRow& row) const {
  const std::vector<TrialRoundTimesAndMachineLoad>& rounds = row.measurement.rounds;
  const auto found = std::ranges::find_if(rows_, [&](const TrialResultRow* other) {
    return !rounds.empty() && same_axes(*other, row) && other->measurement.strategy == rounds.front().base;
  });
  return found == rows_.end() ? &row : *found;
}

StepTimeRatioEstimate WorkNormalizedTrialComparator::interval(const TrialResultRow& row,
                                                              ConfidenceIntervalLevel confidence) const {
  const TrialResultRow& base_row = usable(row.measurement) ? *base_of(row) : row;
  const TrialMeasurement& base = base_row.measurement;
  const double time = work_time(base, work_) * kWorks[static_cast<size_t>(work_)].per_ms;
  if (!usable(base)) return {time, time, time};
  const StepTimeRatioEstimate of_base = ratio(row, base_row, confidence);
  return {time * of_base.value, time * of_base.low, time * of_base.high};
}

StepTimeRatioEstimate WorkNormalizedTrialComparator::ratio(const TrialResultRow& row, const TrialResultRow& base,
                                                           ConfidenceIntervalLevel confidence) const {
  const StepTimeRatioEstimate steps = ratio_of(row.measurement, base.measurement, confidence);
  const double times = amount(base.measurement, work_) / amount(row.measurement, work_);
  return {times * steps.value, times * steps.low, times * steps.high};
}

bool WorkNormalizedTrialComparator::equally_fast(const TrialResultRow& a, const TrialResultRow& b) const {
  const bool untimed = is_untimed(a.measurement);
  if (untimed || is_untimed(b.measurement)) return untimed == is_untimed(b.measurement);
  if (have_rounds_in_common(a.measurement, b.measurement)) {
    const StepTimeRatioEstimate of_both = ratio(a, b, ConfidenceIntervalLevel::percent99);
    return of_both.low <= 1 && 1 <= of_both.high;
  }
  const StepTimeRatioEstimate of_a = interval(a, ConfidenceIntervalLevel::percent99),
                              of_b = interval(b, ConfidenceIntervalLevel::percent99);
  return of_a.low <= of_b.high && of_b.low <= of_a.high;
}

bool WorkNormalizedTrialComparator::faster(const TrialResultRow& a, const TrialResultRow& b) const {
  const bool untimed = is_untimed(a.measurement);
  if (untimed != is_untimed(b.measurement)) return !untimed;
  if (untimed) return required_bytes(a) < required_bytes(b);
  const double time_a = time(a), time_b = time(b);
  return time_a != time_b ? time_a < time_b : required_bytes(a) < required_bytes(b);
}

bool WorkNormalizedTrialComparator::smaller(const TrialResultRow& a, const TrialResultRow& b) const {
  return required_bytes(a) != required_bytes(b) ? required_bytes(a) < required_bytes(b) : time(a) < time(b);
}

std::vector<const TrialResultRow*> ranked(std::span<const TrialResultRow> rows) {
  std::vector<const TrialResultRow*> order = pointers_to(rows);
  const WorkNormalizedTrialComparator ranking(rows);
  const auto failed =
      std::stable_partition(order.begin(), order.end(), [](const TrialResultRow* row) { return worked(*row); });
  std::stable_sort(order.begin(), failed,
                   [&](const TrialResultRow* a, const TrialResultRow* b) { return ranking.faster(*a, *b); });
  return order;
}

}  // namespace memtune::result
