// Two sweeps beside each other: what became faster, smaller, wrong. Trials are the same when strategy, batch and
// sequence are.
#pragma once

#include <span>
#include <vector>

#include "core/result/row.h"

namespace memtune::result {

struct DiffRow {
  const Row* a = nullptr;  // null: only in B
  const Row* b = nullptr;  // null: only in A

  const Row& any() const { return a ? *a : *b; }
  bool in_both() const { return a && b; }
  bool worked_in_both() const;
  bool broke() const;  // worked in A, and in B not or was not tried
};

// In A's order as people read it (ranked), then what only B has. Refers to the rows of both.
std::vector<DiffRow> diff(std::span<const Row> a, std::span<const Row> b);

// The intervals of the medians meet: no difference can be told.
bool may_be_equal(const StepTime& a, const StepTime& b);

}  // namespace memtune::result
