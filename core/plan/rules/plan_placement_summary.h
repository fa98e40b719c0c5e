// Summary of a plan for one model: how many activations and bytes are at each place, by block.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"

namespace memtune::plan {

struct PlacementTotal {
  int values = 0;
  int64_t bytes = 0;
  bool operator==(const PlacementTotal&) const = default;
};

// Activations that backward needs. Recomputed ones count with the bytes they would take.
struct BlockRangePlacementTotals {
  std::string blocks;                  // "0-3" (neighbours with equal sums share a row), "before", "behind"
  std::array<PlacementTotal, 4> sums;  // indexed by Place
};

struct PlanPlacementSummary {
  bool measured = false;  // if false, all values count, and bytes are unknown
  std::vector<BlockRangePlacementTotals> rows;
  BlockRangePlacementTotals total;
};

PlanPlacementSummary summarize(const Plan& plan, const ProgramFacts& facts);

}  // namespace memtune::plan
