#include "core/answer/result/rounds.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace memtune::result {
namespace {

// Two-sided quantiles of Student's t, by degrees of freedom from 1 on.
using Quantiles = std::array<double, 15>;
constexpr Quantiles kStudent95 = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                  2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
constexpr Quantiles kStudent99 = {63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355,
                                  3.250,  3.169, 3.106, 3.055, 3.012, 2.977, 2.947};

// Beyond the table the last quantile is used: slightly too wide, never too narrow.
double quantile(size_t freedom, ConfidenceIntervalLevel confidence) {
  const Quantiles& student = confidence == ConfidenceIntervalLevel::percent95 ? kStudent95 : kStudent99;
  return student[std::min(freedom, student.size()) - 1];
}

// Logarithm of the ratio to the baseline of the same round; NaN if one of them was not measured.
double log_ratio(const TrialRoundTimesAndMachineLoad& round) {
  return round.base_ms > 0 && round.step_ms.median > 0 ? std::log(round.step_ms.median / round.base_ms) : std::nan("");
}

// One per round in which both were compared with one baseline, which may be `base` itself.
std::vector<double> log_ratios(const TrialMeasurement& m, const TrialMeasurement& base) {
  std::vector<double> logs;
  for (size_t i = 0; i < m.rounds.size(); ++i) {
    double log = log_ratio(m.rounds[i]);
    if (m.rounds[i].base != base.strategy) {
      const bool one_base = i < base.rounds.size() && base.rounds[i].base == m.rounds[i].base;
      log -= one_base ? log_ratio(base.rounds[i]) : std::nan("");
    }
    if (!std::isnan(log)) logs.push_back(log);
  }
  return logs;
}

StepTimeRatioEstimate of_medians(const StepTimeStats& step, double base_ms) {
  const double low = step.low > 0 ? step.low : step.median, high = step.high > 0 ? step.high : step.median;
  return {step.median / base_ms, low / base_ms, high / base_ms};
}

void take_higher(PeakMemory& most, const PeakMemory& other) {
  for (const auto bytes : {&PeakMemory::allocated, &PeakMemory::reserved, &PeakMemory::device})
    most.*bytes = std::max(most.*bytes, other.*bytes);
}

void scale_rates(double before_ms, TrialMeasurement& m) {
  const double factor = before_ms / m.step_ms.median;
  m.samples_per_s *= factor;
  m.tokens_per_s *= factor;
}

}  // namespace

bool have_rounds_in_common(const TrialMeasurement& a, const TrialMeasurement& b) {
  return log_ratios(a, b).size() >= 2;
}

StepTimeRatioEstimate ratio_of(const TrialMeasurement& m, const TrialMeasurement& base,
                               ConfidenceIntervalLevel confidence) {
  const std::vector<double> logs = log_ratios(m, base);
  if (logs.size() < 2) return of_medians(m.step_ms, base.step_ms.median);
  const auto count = static_cast<double>(logs.size());
  double mean = 0, squares = 0;
  for (const double log : logs) mean += log / count;
  for (const double log : logs) squares += (log - mean) * (log - mean);
  const double half = quantile(logs.size() - 1, confidence) * std::sqrt(squares / (count - 1) / count);
  return {std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
}

void add_round(size_t index, const TrialMeasurement& round, const TrialRoundTimesAndMachineLoad& beside,
               TrialMeasurement& to) {
  to.rounds.resize(std::max(to.rounds.size(), index + 1));
  to.rounds[index] = beside;
  to.rounds[index].step_ms = round.step_ms;
  to.rounds[index].loss = round.loss;
  std::vector<double> samples;
  for (const TrialRoundTimesAndMachineLoad& each : to.rounds)
    samples.insert(samples.end(), each.step_ms.samples.begin(), each.step_ms.samples.end());
  const double before_ms = to.step_ms.median;
  to.step_ms = summarize(std::move(samples));
  to.noisy = is_noisy(to.step_ms);
  if (before_ms > 0 && to.step_ms.median > 0) scale_rates(before_ms, to);
  take_higher(to.peak_bytes, round.peak_bytes);
  for (size_t i = 0; i < std::min(to.ranks.size(), round.ranks.size()); ++i)
    take_higher(to.ranks[i].peak_bytes, round.ranks[i].peak_bytes);
}

}  // namespace memtune::result
