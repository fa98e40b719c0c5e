// The order in which variants of a command run: the user's own variant, then single changes, then combinations, once
// their parts are measured.
//
// The expected step time of a combination is the own step time times the ratio of each part to own; the same for peak
// memory. All figures are from first rounds. If a part is not measured, the ratio of the native sweep is used where
// that measured the whole combination; otherwise the part counts as no change. The estimate serves for the order only:
// changes of the same bytes or the same time do not multiply, and memory that no part changes (parameters, optimizer
// state) is scaled too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/answer/result/recommend.h"
#include "core/answer/run/command_variants.h"
#include "core/sweep/loop/sweep_trial_proposer_and_runner.h"

namespace memtune::sweep {

// Figures of one strategy in a sweep of memtune's own engine on the same model.
struct EngineStrategyStepTimeAndPeak {
  std::string strategy;
  double step_ms = 0;  // 0: it failed
  double peak_bytes = 0;
};

struct VariantWithOrderReason {
  const CommandVariant* variant;
  std::string why;  // reason for its place; "": none
};

struct VariantCombinationsToRunAndSkip {
  std::vector<VariantWithOrderReason> run;
  std::vector<SkippedCommandVariant> skipped;  // one of their parts alone ended in error in its first round
};

class CommandVariantOrderer {
 public:
  // `variants` outlive it. `budget_bytes` 0: none.
  CommandVariantOrderer(std::span<const CommandVariant> variants, std::vector<EngineStrategyStepTimeAndPeak> native,
                        int64_t budget_bytes, result::RecommendationGoal goal);

  // All variants but combinations: own first, then by the native sweep's figures of similar strategies. A variant comes
  // last if another was both faster and smaller there.
  std::vector<VariantWithOrderReason> first() const;
  // Combinations that are expected to fit the budget come first, fastest (or smallest) first. A combination
  // comes last if a measured trial is faster and smaller than what is expected of it.
  VariantCombinationsToRunAndSkip combined(std::span<const SweepTrialAndMeasurement> tried) const;

 private:
  struct Expected;

  Expected by_native(const CommandVariant& variant) const;
  Expected by_parts(const CommandVariant& variant, std::span<const SweepTrialAndMeasurement> tried) const;
  const EngineStrategyStepTimeAndPeak* native(const std::string& strategy) const;
  const EngineStrategyStepTimeAndPeak* native_of(const CommandVariant& variant) const;
  void evaluate(std::span<const Expected> against, Expected& expected) const;
  std::vector<VariantWithOrderReason> in_order(std::vector<Expected> expected) const;

  std::span<const CommandVariant> variants_;
  std::vector<EngineStrategyStepTimeAndPeak> native_;
  int64_t budget_bytes_;
  result::RecommendationGoal goal_;
};

}  // namespace memtune::sweep
