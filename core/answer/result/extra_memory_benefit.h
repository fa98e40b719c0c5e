// The step time that memory above the budget would save, if a faster trial that needs more was measured. Pure functions
// over rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/record/measurement/trial_result_row.h"

namespace memtune::result {

struct ExtraMemoryBenefit {
  const TrialResultRow* row = nullptr;  // would be chosen under a larger budget; points into the given rows
  double saved_ms = 0;                  // per step, compared with the chosen row
  double ms_per_gib = 0;                // per GiB by which the row's peak exceeds that of the chosen row
};

// Among the rows above the budget that are measurably faster than `chosen`, the one that saves most time per byte.
// `chosen` must fit the budget. Returns nothing if there is no such row, or no budget (0).
std::optional<ExtraMemoryBenefit> benefit_of_more_memory(std::span<const TrialResultRow> rows,
                                                         const TrialResultRow& chosen, int64_t budget_bytes);

}  // namespace memtune::result
