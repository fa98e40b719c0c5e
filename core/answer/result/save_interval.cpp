#include "core/answer/result/save_interval.h"

#include <algorithm>
#include <cmath>

namespace memtune::result {
namespace {

constexpr double kMaxSteps = 1e15;  // keeps numbers in range for any step time
constexpr double kMinStepMs = 1e-300;

// The part of a save during which steps run.
double on_its_way_ms(const StateSaveModeMeasurement& save) { return std::max(0.0, save.durable_ms - save.blocked_ms); }

}  // namespace

double cost_ms(const StateSaveModeMeasurement& save) {
  if (!save.slowdown) return save.blocked_ms + save.slowed_ms;
  return save.blocked_ms + on_its_way_ms(save) * (1 - 1 / std::max(1.0, *save.slowdown));
}

double daly_interval_s(double cost_s, double mtbf_s) {
  const double ratio = cost_s / (2 * mtbf_s);
  if (ratio >= 1) return mtbf_s;
  return std::sqrt(2 * cost_s * mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_s;
}

SaveIntervalAdvice advise(const StateSaveModeMeasurement& save, double step_ms, double mtbf_s) {
  step_ms = std::max(kMinStepMs, step_ms);
  const double cost_s = cost_ms(save) / 1e3, step_s = step_ms / 1e3;
  const double best = std::round(daly_interval_s(cost_s, mtbf_s) / step_s);
  const double least = std::ceil(save.durable_ms / step_ms);
  SaveIntervalAdvice advice{save.mode, mtbf_s};
  advice.every_steps = static_cast<int64_t>(std::clamp(std::max(best, least), 1.0, kMaxSteps));
  advice.interval_s = static_cast<double>(advice.every_steps) * step_s;
  const double lost_s = advice.interval_s / 2 + (on_its_way_ms(save) + save.load_ms) / 1e3;
  advice.overhead = cost_s / advice.interval_s + lost_s / mtbf_s;
  return advice;
}

std::optional<SaveIntervalAdvice> advise(std::span<const StateSaveModeMeasurement> saves, double step_ms,
                                         double mtbf_s) {
  std::optional<SaveIntervalAdvice> best;
  if (!(step_ms > 0)) return best;
  for (const StateSaveModeMeasurement& save : saves) {
    if (save.outcome != TrialOutcome::ok) continue;
    const SaveIntervalAdvice advice = advise(save, step_ms, mtbf_s);
    if (!best || advice.overhead < best->overhead) best = advice;
  }
  return best;
}

}  // namespace memtune::result
