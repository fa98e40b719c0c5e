// Compares two sweeps, A and B: which trials became faster, smaller or failed. Trials are the same if strategy, batch
// and sequence length are equal.
#pragma once

#include <span>
#include <vector>

#include "core/record/measurement/trial_result_row.h"

namespace memtune::result {

struct SweepDiffRow {
  const TrialResultRow* a = nullptr;  // null: in B only
  const TrialResultRow* b = nullptr;  // null: in A only

  const TrialResultRow& any() const { return a ? *a : *b; }
  bool in_both() const { return a && b; }
  bool worked_in_both() const;
  bool broke() const;  // worked in A, but failed or is missing in B
};

// A's rows in ranked order, then the rows that only B has. The result points into both spans.
std::vector<SweepDiffRow> diff(std::span<const TrialResultRow> a, std::span<const TrialResultRow> b);

// Whether the intervals of the medians overlap, so that no difference can be claimed.
bool may_be_equal(const StepTimeStats& a, const StepTimeStats& b);

}  // namespace memtune::result
