// Limits of a trace's numbers, so that sums and differences fit int64_t. Reading a file with larger ones fails; a merge
// drops them.
#pragma once

#include <cstdint>

#include "core/base/bounds.h"

namespace memtune::trace {

inline constexpr int64_t kMaxAbsTimeNs = int64_t{1} << 61;    // from 0; differences and sums of a few times fit
inline constexpr int64_t kMaxDurationNs = int64_t{1} << 62;   // sum over all events of a kind, 146 years
inline constexpr int64_t kMaxCopiedBytes = int64_t{1} << 56;  // sum over all events
inline constexpr int64_t kMaxHeldBytes = int64_t{1} << 46;    // 64 TiB, per owner and moment
inline constexpr size_t kMaxOwners = 1 << 16;                 // keeps sums over all owners in range

inline bool is_trace_time(int64_t ns) { return ns >= -kMaxAbsTimeNs && ns <= kMaxAbsTimeNs; }

}  // namespace memtune::trace
