// Decides which range of host memory a lease gets, and when another slab is requested from the system. It knows memory
// by number of slab and offset, so that the step simulator uses it too.
//
// A lease gets the smallest free range that it fits in. Freed neighbors merge, within one slab only: a driver may
// refuse a copy that crosses two allocations.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::schedule {

// `FreeAfter`: when the copies of earlier owners end. add() merges two, forget_done() drops what has ended.
template <typename FreeAfter>
class HostSlabBestFitAllocator {
 public:
  struct Range {
    size_t slab = 0;
    int64_t begin = 0, bytes = 0;
    FreeAfter free_after = {};
  };

  // `slab_bytes`: least size of a slab, unless the budget has less left. `budget_bytes`: limit of all slabs; 0: none.
  // `power_of_two`: each lease is a slab of its own, rounded up to a power of two and reused for that size only.
  HostSlabBestFitAllocator(int64_t slab_bytes, int64_t budget_bytes, bool power_of_two)
      : slab_bytes_(slab_bytes), budget_bytes_(budget_bytes), power_of_two_(power_of_two) {}

  void set_budget(int64_t bytes) { budget_bytes_ = bytes; }

  // Returns nothing if the budget has no room. `add_slab` requests a slab of the given bytes; it may throw.
  template <typename AddSlab>
  std::optional<Range> try_lease(int64_t bytes, const AddSlab& add_slab) {
    bytes = rounded(bytes);
    auto best = best_fit(bytes);
    if (best == free_.end()) {
      const int64_t slab = next_slab(bytes);
      if (slab < bytes) return std::nullopt;
      add_slab(slab);
      reserved_bytes_ += slab;
      insert({slabs_++, 0, slab});
      best = best_fit(bytes);
    }
    best->free_after.forget_done();  // else each lease from a large range would inherit all earlier leases' copies
    const Range lease{best->slab, best->begin, bytes, best->free_after};
    best->begin += bytes;
    best->bytes -= bytes;
    if (best->bytes == 0) free_.erase(best);
    count(bytes);
    return lease;
  }

  // A slab of its own that exceeds the budget: a simulated step continues, and its peak shows that it does not fit.
  Range lease_over_budget(int64_t bytes) {
    bytes = rounded(bytes);
    count(bytes);
    peak_leased_bytes_ = std::max(peak_leased_bytes_, budget_bytes_ + 1);
    return {slabs_++, 0, bytes};
  }

  void deallocate(Range range) {
    leased_bytes_ -= range.bytes;
    insert(std::move(range));
  }

  int64_t leased_bytes() const { return leased_bytes_; }
  int64_t reserved_bytes() const { return reserved_bytes_; }
  int64_t peak_leased_bytes() const { return peak_leased_bytes_; }

 private:
  int64_t rounded(int64_t bytes) const {
    bytes = round_up(std::max<int64_t>(1, bytes), kHostGrainBytes);
    return power_of_two_ ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes))) : bytes;
  }

  typename std::vector<Range>::iterator best_fit(int64_t bytes) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range)
      if ((power_of_two_ ? range->bytes == bytes : range->bytes >= bytes) &&
          (best == free_.end() || range->bytes < best->bytes))
        best = range;
    return best;
  }

  int64_t next_slab(int64_t bytes) const {
    const int64_t slab = power_of_two_ ? bytes : std::max(bytes, slab_bytes_);
    return budget_bytes_ > 0 ? std::min(slab, budget_bytes_ - reserved_bytes_) : slab;
  }

  void count(int64_t bytes) {
    leased_bytes_ += bytes;
    peak_leased_bytes_ = std::max(peak_leased_bytes_, leased_bytes_);
  }

  static bool touch(const Range& first, const Range& second) {
    return first.slab == second.slab && first.begin + first.bytes == second.begin;
  }

  void insert(Range range) {
    auto next = std::ranges::find_if(free_, [&](const Range& other) {
      return std::pair(other.slab, other.begin) > std::pair(range.slab, range.begin);
    });
    if (next != free_.end() && touch(range, *next)) {
      range.bytes += next->bytes;
      range.free_after.add(std::move(next->free_after));
      next = free_.erase(next);
    }
    if (next != free_.begin() && touch(*std::prev(next), range)) {
      std::prev(next)->bytes += range.bytes;
      std::prev(next)->free_after.add(std::move(range.free_after));
    } else {
      free_.insert(next, std::move(range));
    }
  }

  const int64_t slab_bytes_;
  int64_t budget_bytes_;
  const bool power_of_two_;
  std::vector<Range> free_;  // by slab and offset
  size_t slabs_ = 0;
  int64_t leased_bytes_ = 0, reserved_bytes_ = 0, peak_leased_bytes_ = 0;
};

}  // namespace memtune::schedule
