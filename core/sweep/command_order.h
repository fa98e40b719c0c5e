// In which order variants of a command are worth their time: first the user's own, then what changes one thing, then
// combinations, once their parts are measured.
//
// A combination is expected to take own's step and own's peak times the product of its parts' ratios to own, in their
// first rounds. That is no more than an order: changes that act on the same bytes or the same time do not multiply, and
// what no part changes of a peak (parameters, optimizer) is scaled with it. A part that is not measured counts as no
// change, or by the native sweep's ratio where that has the whole combination.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result/recommend.h"
#include "core/sweep/command_variants.h"
#include "core/sweep/sweep_subject.h"

namespace memtune::sweep {

// Of a sweep of memtune's own engines on the same model: what one strategy took.
struct NativeFigures {
  std::string strategy;
  double step_ms = 0;  // 0: it did not work
  double peak_bytes = 0;
};

struct PlacedVariant {
  const CommandVariant* variant;
  std::string why;  // it has this place; "": as it comes
};

struct PlacedCombinations {
  std::vector<PlacedVariant> run;
  std::vector<SkippedVariant> skipped;  // a part of it alone ended in error, in its first round
};

class CommandOrder {
 public:
  // `variants` outlive it. `budget_bytes` 0: none.
  CommandOrder(std::span<const CommandVariant> variants, std::vector<NativeFigures> native, int64_t budget_bytes,
               result::Goal goal);

  // All but combinations: the own, then by what the native sweep measured of their likes, what another is both faster
  // and smaller than there last.
  std::vector<PlacedVariant> first() const;
  // Those that fit the budget first, the fastest (or smallest) of them first of all; those that are expected to be
  // slower and larger than something measured last.
  PlacedCombinations combined(std::span<const TrialState> tried) const;

 private:
  struct Expected;

  Expected by_native(const CommandVariant& variant) const;
  Expected by_parts(const CommandVariant& variant, std::span<const TrialState> tried) const;
  const NativeFigures* native(const std::string& strategy) const;
  const NativeFigures* native_of(const CommandVariant& variant) const;
  void judge(std::span<const Expected> against, Expected& expected) const;
  std::vector<PlacedVariant> in_order(std::vector<Expected> expected) const;

  std::span<const CommandVariant> variants_;
  std::vector<NativeFigures> native_;
  int64_t budget_bytes_;
  result::Goal goal_;
};

}  // namespace memtune::sweep
