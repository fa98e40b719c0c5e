// Advice in memtune's own terms: a parameter of the trial's strategy, or a field of its plan file if it has no
// strategy.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/plan/strategy/strategy.h"

namespace memtune::findings {

struct AdviceTextAndStrategy {
  // Most advice is text alone.
  AdviceTextAndStrategy(std::string text) : text(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  AdviceTextAndStrategy(const char* text) : text(text) {}             // NOLINT(google-explicit-constructor)
  AdviceTextAndStrategy(std::string text, const plan::Strategy& alternative_strategy)
      : text(std::move(text)), alternative_strategy(to_string(alternative_strategy)) {}

  std::string text;                  // "fraction=1 -> fraction=0.6"
  std::string alternative_strategy;  // the whole strategy to try; "": something else has to change
};

class SuggestedStrategyBuilder {
 public:
  // `name`: of a strategy, or of a plan. `plan` may be null: then its present settings are unknown. `blocks` of the
  // model; 0: unknown.
  SuggestedStrategyBuilder(const std::string& name, const plan::Plan* plan, int blocks = 0);

  AdviceTextAndStrategy deeper_prefetch() const;           // "prefetch=1GiB -> prefetch=2GiB"
  AdviceTextAndStrategy larger_stash() const;              // more sources that may wait for their copies out
  AdviceTextAndStrategy offload_less(double share) const;  // "fraction=1 -> fraction=0.6": `share` of what is offloaded
  AdviceTextAndStrategy keep_small(int64_t bytes) const;   // "min=1MiB -> min=4MiB": smaller activations stay
  AdviceTextAndStrategy pinned() const;
  AdviceTextAndStrategy keep_last() const;       // "keep_last=0 -> keep_last=1"
  AdviceTextAndStrategy recompute_less() const;  // "checkpoint:full -> checkpoint:every=2"
  AdviceTextAndStrategy offload_head() const;    // "head=keep -> head=move"
  bool offloads() const;                         // the strategy has a part with parameters that schedule copies

 private:
  using Change = std::function<std::string(const plan::StrategyPart& part)>;

  const plan::StrategyPart& offload() const;  // the first such part: all parts copy in the same manner
  // Returns `otherwise` if nothing would change, or if the strategy does not accept it.
  AdviceTextAndStrategy change(plan::StrategyParameterId parameter, const Change& value,
                               const std::string& otherwise) const;
  AdviceTextAndStrategy recompute_every(plan::StrategyKind kind, const std::string& otherwise) const;

  std::optional<plan::Strategy> strategy_;  // none for a plan
  const plan::Plan* plan_;
  int blocks_;
};

}  // namespace memtune::findings
