// What more memory than the budget would be worth: step time, as far as something was measured that needs more and is
// faster. A pure function over rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/result/row.h"

namespace memtune::result {

struct MemoryPrice {
  const Row* row = nullptr;  // that could be chosen under a larger budget; of the rows that were given
  double saved_ms = 0;       // of a step of what is chosen now
  double ms_per_gib = 0;     // saved for each GiB from the peak of what is chosen now up to the row's
};

// Among the rows that do not keep the budget and are measurably faster than `chosen`, which keeps it, the one that
// saves most for its bytes. Nothing: there is none, or no budget (0).
std::optional<MemoryPrice> price_of_more(std::span<const Row> rows, const Row& chosen, int64_t budget_bytes);

}  // namespace memtune::result
