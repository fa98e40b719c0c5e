#include "core/plan/no_effect.h"

#include <algorithm>
#include <optional>

#include "core/base/bytes.h"
#include "core/plan/draft.h"
#include "core/plan/strategy.h"

namespace memtune::plan {
namespace {

using config::Parameter;
using config::Place;
using config::Strategy;
using config::StrategyPart;

constexpr int64_t kLeastMin = 1024, kMinStep = 4;

// Of values that backward needs; the engine leaves those below `min` where they are.
int64_t moved_with(const Strategy& strategy, int64_t min, const config::ProgramFacts& facts) {
  const MemoryGraph graph(facts);
  const Draft draft(facts, make_plan(strategy.with(Parameter::min, std::to_string(min)), facts));
  const std::vector<bool> needed = needed_in_backward(graph, draft);
  int64_t bytes = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    const Memory& memory = graph.memories()[i];
    const Place place = draft.place(memory);
    const bool moves = place == Place::host || place == Place::disk;
    if (needed[i] && moves && memory.bytes >= min) bytes += memory.bytes;
  }
  return bytes;
}

// "min=64KiB would move 11 MiB": the largest with which most of what can move does.
std::string smaller_min(const Strategy& strategy, int64_t min, const config::ProgramFacts& facts) {
  const int64_t all = moved_with(strategy, 1, facts);
  if (all == 0) return "";
  do {
    min = std::max<int64_t>(1, min / kMinStep);
  } while (min > kLeastMin && 2 * moved_with(strategy, min, facts) < all);
  const Strategy smaller = strategy.with(Parameter::min, std::to_string(min));
  const StrategyPart& part = *std::ranges::find_if(smaller.parts(), &StrategyPart::is_offload);
  return part.setting(Parameter::min) + " would move " + format_bytes(moved_with(strategy, min, facts));
}

std::string of_small_values(const Strategy& strategy, const config::ProgramFacts& facts) {
  const auto& parts = strategy.parts();
  const auto part = std::ranges::find_if(parts, &StrategyPart::is_offload);
  if (part == parts.end() || !part->has(Parameter::min) || part->bytes(Parameter::min) <= 1) return "";
  const std::string smaller = smaller_min(strategy, part->bytes(Parameter::min), facts);
  return smaller.empty() ? "" : "every value is below " + part->setting(Parameter::min) + "; " + smaller;
}

}  // namespace

std::string why_no_effect(const config::Plan& plan, const config::ProgramFacts& facts) {
  if (const std::optional<Strategy> strategy = Strategy::of_name(plan.strategy)) {
    std::string reason = of_small_values(*strategy, facts);
    if (!reason.empty()) return reason;
  }
  return plan.keeps_everything() ? "it finds no value of this model to place elsewhere"
                                 : "backward needs none of the values that it places elsewhere";
}

}  // namespace memtune::plan
