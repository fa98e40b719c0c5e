#include "core/plan/rules/no_effect.h"

#include <algorithm>
#include <optional>

#include "core/base/bytes.h"
#include "core/plan/rules/activation_placement_draft.h"
#include "core/plan/rules/strategy.h"

namespace memtune::plan {
namespace {

constexpr int64_t kLeastMin = 1024, kMinStep = 4;

bool is_offloaded(TensorPlacement place) { return place == TensorPlacement::host || place == TensorPlacement::disk; }

// Place by memory of the graph; keep where backward does not need the memory. The engine does not offload memories
// smaller than `min`.
std::vector<TensorPlacement> effects(const Plan& plan, int64_t min, const OpMemoryAccessGraph& graph,
                                     const ProgramFacts& facts) {
  const ActivationPlacementDraft draft(facts, plan);
  const std::vector<bool> needed = needed_in_backward(graph, draft);
  std::vector<TensorPlacement> places(needed.size(), TensorPlacement::keep);
  for (size_t i = 0; i < needed.size(); ++i) {
    const OpOutputAllocationNode& memory = graph.memories()[i];
    const TensorPlacement place = draft.place(memory);
    if (needed[i] && !(is_offloaded(place) && memory.bytes < min)) places[i] = place;
  }
  return places;
}

int64_t moved(const Plan& plan, int64_t min, const ProgramFacts& facts) {
  const OpMemoryAccessGraph graph(facts);
  const std::vector<TensorPlacement> places = effects(plan, min, graph, facts);
  int64_t bytes = 0;
  for (size_t i = 0; i < places.size(); ++i)
    if (is_offloaded(places[i])) bytes += graph.memories()[i].bytes;
  return bytes;
}

int64_t moved_with(const Strategy& strategy, int64_t min, const ProgramFacts& facts) {
  return moved(make_plan(strategy.with(StrategyParameterId::min, std::to_string(min)), facts), min, facts);
}

// "min=64KiB would offload 11 MiB": the largest `min` tried that offloads at least half of what can be offloaded.
std::string smaller_min(const Strategy& strategy, int64_t min, const ProgramFacts& facts) {
  const int64_t all = moved_with(strategy, 1, facts);
  if (all == 0) return "";
  do {
    min = std::max<int64_t>(1, min / kMinStep);
  } while (min > kLeastMin && 2 * moved_with(strategy, min, facts) < all);
  const Strategy smaller = strategy.with(StrategyParameterId::min, std::to_string(min));
  const StrategyPart& part = *std::ranges::find_if(smaller.parts(), &StrategyPart::is_offload);
  return part.setting(StrategyParameterId::min) + " would offload " + format_bytes(moved_with(strategy, min, facts));
}

std::string of_small_values(const Strategy& strategy, const ProgramFacts& facts) {
  const auto& parts = strategy.parts();
  const auto part = std::ranges::find_if(parts, &StrategyPart::is_offload);
  if (part == parts.end() || !part->has(StrategyParameterId::min) || part->bytes(StrategyParameterId::min) <= 1)
    return "";
  const std::string smaller = smaller_min(strategy, part->bytes(StrategyParameterId::min), facts);
  return smaller.empty() ? "" : "every activation is below " + part->setting(StrategyParameterId::min) + "; " + smaller;
}

// For offloaded checkpoint inputs and for plan files, whose strategies have no parameter `min`.
std::string of_small_values(const Plan& plan, const ProgramFacts& facts) {
  const int64_t min = plan.transfer.min_bytes;
  if (!plan.offloads_activations() || min <= 1 || moved(plan, min, facts) > 0) return "";
  const int64_t bytes = moved(plan, 1, facts);
  if (bytes == 0) return "";
  return "every activation to offload is below its plan's min_bytes of " + format_bytes(min) +
         "; a plan file with a lower one would offload up to " + format_bytes(bytes);
}

bool same_effect(const Strategy& a, const Strategy& b, const OpMemoryAccessGraph& graph, const ProgramFacts& facts) {
  const Plan of_a = make_plan(a, facts), of_b = make_plan(b, facts);
  const auto saves = [](const Plan& plan) {
    std::vector<int> ops;
    for (const OneOpActivationPlacements& op : plan.placements)
      if (op.saves != TensorPlacement::keep) ops.push_back(op.op);
    return ops;
  };
  const std::vector<TensorPlacement> effect = effects(of_a, of_a.transfer.min_bytes, graph, facts);
  const bool offloads_activations = std::ranges::any_of(effect, is_offloaded) || !saves(of_a).empty();
  return effect == effects(of_b, of_b.transfer.min_bytes, graph, facts) && saves(of_a) == saves(of_b) &&
         of_a.nested == of_b.nested && of_a.states == of_b.states &&
         (!offloads_activations || of_a.transfer == of_b.transfer);
}

}  // namespace

std::string why_nothing_offloaded(const Plan& plan, const ProgramFacts& facts) {
  if (const std::optional<Strategy> strategy = Strategy::of_name(plan.strategy))
    if (std::string reason = of_small_values(*strategy, facts); !reason.empty()) return reason;
  return of_small_values(plan, facts);
}

Strategy without_idle_parts(const Strategy& strategy, const ProgramFacts& facts) {
  const OpMemoryAccessGraph graph(facts);
  if (!graph.measured()) return strategy;
  for (const Strategy& less : strategy.with_one_less())
    if (same_effect(less, strategy, graph, facts)) return without_idle_parts(less, facts);
  return strategy;
}

std::string why_no_effect(const Plan& plan, const ProgramFacts& facts) {
  if (std::string reason = why_nothing_offloaded(plan, facts); !reason.empty()) return reason;
  return plan.keeps_everything() ? "it finds no activation of this model to offload or recompute"
                                 : "backward needs none of the activations that it offloads or recomputes";
}

}  // namespace memtune::plan
