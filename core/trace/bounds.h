// Limits of a trace, so that sums and differences fit an int64. The reader of a file refuses more, a merge drops it.
#pragma once

#include <cstdint>

#include "core/base/bounds.h"

namespace memtune::trace {

inline constexpr int64_t kFarthestNs = int64_t{1} << 61;  // from 0: differences and sums of a few times stay numbers
inline constexpr int64_t kMostDurationNs = int64_t{1} << 62;   // of all events of a kind, 146 years
inline constexpr int64_t kMostCopiedBytes = int64_t{1} << 56;  // by all events together
inline constexpr int64_t kMostHeldBytes = int64_t{1} << 46;    // 64 TiB, of an owner and at a moment
inline constexpr size_t kMostOwners = 1 << 16;                 // sums over all owners stay numbers

inline bool is_trace_time(int64_t ns) { return ns >= -kFarthestNs && ns <= kFarthestNs; }

}  // namespace memtune::trace
