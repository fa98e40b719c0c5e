#include "core/answer/result/diff.h"

#include <algorithm>

#include "core/answer/result/work_normalized_trial_comparator.h"

namespace memtune::result {

bool SweepDiffRow::worked_in_both() const { return in_both() && worked(*a) && worked(*b); }
bool SweepDiffRow::broke() const { return a && worked(*a) && !(b && worked(*b)); }

std::vector<SweepDiffRow> diff(std::span<const TrialResultRow> a, std::span<const TrialResultRow> b) {
  std::vector<SweepDiffRow> rows;
  for (const TrialResultRow* row : ranked(a)) {
    const auto found = std::ranges::find_if(b, [&](const TrialResultRow& other) { return same_trial(*row, other); });
    rows.push_back({row, found == b.end() ? nullptr : &*found});
  }
  for (const TrialResultRow* row : ranked(b)) {
    if (std::ranges::none_of(a, [&](const TrialResultRow& other) { return same_trial(*row, other); }))
      rows.push_back({nullptr, row});
  }
  return rows;
}

bool may_be_equal(const StepTimeStats& a, const StepTimeStats& b) { return a.low <= b.high && b.low <= a.high; }

}  // namespace memtune::result
