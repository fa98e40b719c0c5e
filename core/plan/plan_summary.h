// What a plan does with a model, in numbers: how many values and bytes wait where, block by block.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::plan {

struct PlaceSum {
  int values = 0;
  int64_t bytes = 0;
  bool operator==(const PlaceSum&) const = default;
};

// Values that backward needs; those that are recomputed count with the bytes that they do not hold.
struct SummaryRow {
  std::string blocks;            // "0-3" (blocks whose sums are alike in one row), "before", "behind"
  std::array<PlaceSum, 4> sums;  // by config::Place
};

struct PlanSummary {
  bool measured = false;  // else all values count, and bytes are not known
  std::vector<SummaryRow> rows;
  SummaryRow total;
};

PlanSummary summarize(const config::Plan& plan, const config::ProgramFacts& facts);

}  // namespace memtune::plan
