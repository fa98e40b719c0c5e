#include "core/answer/result/loss_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/answer/result/work_normalized_trial_comparator.h"

namespace memtune::result {
namespace {

constexpr double kOfRuns = 2;  // the factor used for gradients against repeated baseline runs

double rounding(const std::string& dtype) {
  if (dtype == "bfloat16") return std::ldexp(1, -8);
  if (dtype == "float16") return std::ldexp(1, -10);
  return 1e-5;
}

size_t common_steps(const TrialMeasurement& a, const TrialMeasurement& b) {
  size_t steps = std::numeric_limits<size_t>::max();
  for (const TrialMeasurement* each : {&a, &b})
    for (const TrialRoundTimesAndMachineLoad& round : each->rounds) steps = std::min(steps, round.loss.size());
  return a.rounds.empty() || b.rounds.empty() ? 0 : steps;
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
};

Range range_of(const TrialMeasurement& m, size_t step) {
  Range range;
  for (const TrialRoundTimesAndMachineLoad& round : m.rounds) {
    range.low = std::min(range.low, round.loss[step]);
    range.high = std::max(range.high, round.loss[step]);
  }
  return range;
}

// Distance of a loss from the range; infinite if it is not finite.
double distance(double loss, const Range& range) {
  if (!std::isfinite(loss)) return std::numeric_limits<double>::infinity();
  return std::max({0.0, range.low - loss, loss - range.high});
}

std::string text_of(double loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", loss);
  return text;
}

}  // namespace

bool trains_more(const TrialMeasurement& m, const TrialMeasurement& other) {
  return m.tensors_without_gradient < other.tensors_without_gradient;
}

bool has_other_samples(const TrialMeasurement& m, const TrialMeasurement& base) {
  constexpr double kSame = 0.02;  // counts are computed from times, so they vary
  const double samples = amount(m, WorkUnit::sample), expected = amount(base, WorkUnit::sample);
  return samples > 0 && expected > 0 && std::abs(samples / expected - 1) > kSame;
}

LossComparison compare_losses(const TrialMeasurement& m, const TrialMeasurement& base) {
  LossComparison found;
  if (const int64_t more = m.tensors_without_gradient - base.tensors_without_gradient; more > 0) {
    found.compared = found.changed = true;
    found.without_gradient = more;
    found.against = base.strategy;
    return found;
  }
  if (has_other_samples(m, base)) return found;
  const double unit = std::max(rounding(m.dtype), rounding(base.dtype));
  double nearest = -1;
  for (size_t step = 0; step < common_steps(m, base) && !found.changed; ++step) {
    const Range range = range_of(base, step);
    if (!std::isfinite(range.low) || !std::isfinite(range.high)) continue;
    const double size = std::max(std::abs(range.low), std::abs(range.high));
    const double allowed = kOfRuns * (range.high - range.low) + static_cast<double>(step + 1) * unit * size;
    for (const TrialRoundTimesAndMachineLoad& round : m.rounds) {
      const double beyond = distance(round.loss[step], range);
      const double share = allowed > 0 ? beyond / allowed : beyond > 0 ? std::numeric_limits<double>::infinity() : 0;
      if (share <= nearest) continue;
      nearest = share;
      found = {true,
               share > 1,
               static_cast<int64_t>(step) + 1,
               round.loss[step],
               (range.low + range.high) / 2,
               allowed,
               base.strategy,
               0};
    }
  }
  return found;
}

std::string why_changed(const LossComparison& losses) {
  if (!losses.changed) return "";
  if (losses.without_gradient > 0)
    return std::to_string(losses.without_gradient) + (losses.without_gradient == 1 ? " tensor" : " tensors") +
           " that " + losses.against + " trains " + (losses.without_gradient == 1 ? "has" : "have") + " no gradient";
  return "its loss of step " + std::to_string(losses.step) + " is " + text_of(losses.loss) + ", that of " +
         losses.against + " " + text_of(losses.expected) + " (± " + text_of(losses.allowed) + " would be noise)";
}

}  // namespace memtune::result
