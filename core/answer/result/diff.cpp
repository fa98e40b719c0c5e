#include "core/answer/result/diff.h"

#include <algorithm>

#include "core/answer/result/work_normalized_trial_comparator.h"

namespace memtune::result {

bool SweepDiffRow::worked_in_both() const { return in_both() && worked(*a) && worked(*b); }
bool SweepDiffRow::broke() const { return a && worked(*a) && !(b && worked(*b)); }

std::vector<SweepDiffRow> diff(std::span<const TrialRow> a, std::span<const TrialRow> b) {
  std::vector<SweepDiffRow> rows;
  for (const TrialRow* row : ranked(a)) {
    const auto found = std::ranges::find_if(b, [&](const TrialRow& other) { return same_trial(*row, other); });
    rows.push_back({row, found == b.end() ? nullptr : &*found});
  }
  for (const TrialRow* row : ranked(b)) {
    if (std::ranges::none_of(a, [&](const TrialRow& other) { return same_trial(*row, other); }))
      rows.push_back({nullptr, row});
  }
  return rows;
}

bool may_be_equal(const StepTimeStats& a, const StepTimeStats& b) { return a.low <= b.high && b.low <= a.high; }

}  // namespace memtune::result
