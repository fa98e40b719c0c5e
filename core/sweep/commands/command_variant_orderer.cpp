#include "core/sweep/commands/command_variant_orderer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::sweep {
namespace {

using result::TrialOutcome;

constexpr double kMargin = 1.05;  // another variant beats this one only by more than this factor

const SweepTrialAndMeasurement* find(std::span<const SweepTrialAndMeasurement> tried, const std::string& name) {
  const auto found =
      std::ranges::find_if(tried, [&](const SweepTrialAndMeasurement& each) { return each.spec.strategy == name; });
  return found == tried.end() ? nullptr : &*found;
}

const result::TrialMeasurement* measured(std::span<const SweepTrialAndMeasurement> tried, const std::string& name) {
  const SweepTrialAndMeasurement* trial = find(tried, name);
  return trial && result::usable(trial->measurement) ? &trial->measurement : nullptr;
}

// From the first round, so that a later run of the same sweep finds the same order.
double step_ms(const result::TrialMeasurement& m) {
  return m.rounds.empty() || m.rounds.front().step_ms.median <= 0 ? m.step_ms.median : m.rounds.front().step_ms.median;
}

double peak_bytes(const result::TrialMeasurement& m) { return static_cast<double>(required_bytes(m)); }

// True if the trial ended in error in its first round. If it failed later, its combinations have run, and a later run
// of the sweep keeps them.
bool broke(const SweepTrialAndMeasurement* trial) {
  return trial && trial->measurement.outcome == TrialOutcome::error && trial->measurement.rounds.empty();
}

bool ran_out_of_memory(const SweepTrialAndMeasurement* trial) {
  return trial && (trial->measurement.outcome == TrialOutcome::device_oom ||
                   trial->measurement.outcome == TrialOutcome::host_oom);
}

std::string figures_text(double step_ms, double peak_bytes) {
  return ms_text(step_ms) + ", " + format_bytes(static_cast<int64_t>(peak_bytes));
}

bool is_own(const CommandVariant& variant) { return variant.own == variant.name; }

}  // namespace

struct CommandVariantOrderer::Expected {
  const CommandVariant* variant;
  enum Class { own, fits, too_large, beaten } kind = fits;
  double step_ms = 0, peak_bytes = 0;  // 0: unknown
  std::string why = "";

  bool known() const { return step_ms > 0; }
};

CommandVariantOrderer::CommandVariantOrderer(std::span<const CommandVariant> variants,
                                             std::vector<EngineStrategyStepTimeAndPeak> native, int64_t budget_bytes,
                                             result::RecommendationGoal goal)
    : variants_(variants), native_(std::move(native)), budget_bytes_(budget_bytes), goal_(goal) {}

const EngineStrategyStepTimeAndPeak* CommandVariantOrderer::native(const std::string& strategy) const {
  const auto found = std::ranges::find(native_, strategy, &EngineStrategyStepTimeAndPeak::strategy);
  return strategy.empty() || found == native_.end() ? nullptr : &*found;
}

const EngineStrategyStepTimeAndPeak* CommandVariantOrderer::native_of(const CommandVariant& variant) const {
  return native(variant.like);
}

// Marks a variant that is too large for the budget, or that one of the others beats in time and memory.
void CommandVariantOrderer::evaluate(std::span<const Expected> against, Expected& expected) const {
  if (expected.kind == Expected::own || !expected.known()) return;
  const auto beats = [&](const Expected& other) {
    return other.known() && other.step_ms * kMargin < expected.step_ms &&
           other.peak_bytes * kMargin < expected.peak_bytes;
  };
  if (std::ranges::any_of(against, beats)) {
    expected.kind = Expected::beaten;
    expected.why += ": beaten in time and memory";
  } else if (budget_bytes_ > 0 && expected.peak_bytes > static_cast<double>(budget_bytes_)) {
    expected.kind = Expected::too_large;
    expected.why += ": beyond the budget";
  }
}

// A variant without native figures gets those of the own variant.
CommandVariantOrderer::Expected CommandVariantOrderer::by_native(const CommandVariant& variant) const {
  Expected expected{&variant, is_own(variant) ? Expected::own : Expected::fits};
  const EngineStrategyStepTimeAndPeak* figures = native_of(variant);
  if (figures) {
    expected.step_ms = figures->step_ms, expected.peak_bytes = figures->peak_bytes;
    expected.why = "like " + figures->strategy;
    if (expected.known())
      expected.why += ", " + figures_text(expected.step_ms, expected.peak_bytes) + " there";
    else
      expected.kind = Expected::too_large, expected.why += ", which did not work there";
    return expected;
  }
  const auto own = std::ranges::find(variants_, variant.own, &CommandVariant::name);
  const EngineStrategyStepTimeAndPeak* of_own = own == variants_.end() ? nullptr : native_of(*own);
  if (of_own) expected.step_ms = of_own->step_ms, expected.peak_bytes = of_own->peak_bytes;
  return expected;
}

std::vector<VariantWithOrderReason> CommandVariantOrderer::first() const {
  std::vector<Expected> expected;
  for (const CommandVariant& variant : variants_)
    if (variant.parts.empty()) expected.push_back(by_native(variant));
  const std::vector<Expected> against = expected;
  for (Expected& each : expected) evaluate(against, each);
  return in_order(std::move(expected));
}

CommandVariantOrderer::Expected CommandVariantOrderer::by_parts(const CommandVariant& variant,
                                                                std::span<const SweepTrialAndMeasurement> tried) const {
  Expected expected{&variant};
  const result::TrialMeasurement* own = measured(tried, variant.own);
  double time = 1, memory = 1;
  bool all = true;
  for (const std::string& part : variant.parts) {
    if (ran_out_of_memory(find(tried, part))) expected.kind = Expected::too_large;
    const result::TrialMeasurement* alone = measured(tried, part);
    all = all && alone;
    if (!alone || !own || peak_bytes(*own) <= 0) continue;
    time *= step_ms(*alone) / step_ms(*own);
    memory *= peak_bytes(*alone) / peak_bytes(*own);
  }
  const auto as_own = std::ranges::find(variants_, variant.own, &CommandVariant::name);
  const EngineStrategyStepTimeAndPeak* like = native_of(variant);
  const EngineStrategyStepTimeAndPeak* like_own = as_own == variants_.end() ? nullptr : native_of(*as_own);
  if (!all && like && like_own && like->step_ms > 0 && like_own->step_ms > 0) {
    time = like->step_ms / like_own->step_ms;
    memory = like->peak_bytes / like_own->peak_bytes;
  }
  if (!own) return expected;
  expected.step_ms = step_ms(*own) * time;
  expected.peak_bytes = peak_bytes(*own) * memory;
  expected.why = figures_text(expected.step_ms, expected.peak_bytes) + " expected";
  return expected;
}

VariantCombinationsToRunAndSkip CommandVariantOrderer::combined(std::span<const SweepTrialAndMeasurement> tried) const {
  std::vector<Expected> expected, against;
  for (const SweepTrialAndMeasurement& trial : tried)
    if (result::is_eligible(trial.measurement))
      against.push_back({nullptr, Expected::fits, step_ms(trial.measurement), peak_bytes(trial.measurement)});
  VariantCombinationsToRunAndSkip placed;
  for (const CommandVariant& variant : variants_) {
    if (variant.parts.empty()) continue;
    const SweepTrialAndMeasurement* broken = nullptr;
    for (const std::string& part : variant.parts)
      if (const SweepTrialAndMeasurement* trial = find(tried, part); broke(trial)) broken = broken ? broken : trial;
    if (broken) {
      placed.skipped.push_back(
          {variant.name, broken->spec.strategy + " alone ended in error: " + broken->measurement.reason});
      continue;
    }
    expected.push_back(by_parts(variant, tried));
    if (expected.back().kind == Expected::fits) evaluate(against, expected.back());
  }
  placed.run = in_order(std::move(expected));
  return placed;
}

std::vector<VariantWithOrderReason> CommandVariantOrderer::in_order(std::vector<Expected> expected) const {
  const auto place = [&](const Expected& each) {
    // Without figures, variants of a class keep their order (the sort is stable).
    const bool by_memory = goal_ == result::RecommendationGoal::memory || each.kind == Expected::too_large;
    const double worth = each.kind == Expected::own ? 0 : by_memory ? each.peak_bytes : each.step_ms;
    return std::pair<int, double>(each.kind, worth);
  };
  std::ranges::stable_sort(expected, {}, place);
  std::vector<VariantWithOrderReason> placed;
  for (Expected& each : expected) placed.push_back({each.variant, std::move(each.why)});
  return placed;
}

}  // namespace memtune::sweep
