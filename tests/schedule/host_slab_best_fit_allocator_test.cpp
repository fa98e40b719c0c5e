// Which range of host memory a lease gets. tests/tier/host_memory_pool_test.cpp has the cases with memory and events.
#include "core/plan/schedule/host_slab_best_fit_allocator.h"

#include <doctest/doctest.h>
namespace memtune::schedule::host_ranges_test {
namespace {

struct NoCopies {
  void add(NoCopies) {}
  void forget_done() {}
};
using Ranges = HostSlabBestFitAllocator<NoCopies>;

constexpr int64_t kPage = kHostGrainBytes;

Ranges::Range lease(Ranges& ranges, int64_t bytes) {
  return ranges.try_lease(bytes, [](int64_t) {}).value();
}

TEST_CASE("freed ranges of two slabs stay apart because a driver may refuse a copy over both") {
  Ranges ranges(kPage, 0, /*power_of_two=*/false);
  const Ranges::Range a = lease(ranges, kPage), b = lease(ranges, kPage);
  CHECK(a.slab != b.slab);
  ranges.deallocate(a);
  ranges.deallocate(b);
  const Ranges::Range both = lease(ranges, 2 * kPage);
  CHECK(both.slab != a.slab);
  CHECK(both.slab != b.slab);
  CHECK(ranges.reserved_bytes() == 4 * kPage);
}

TEST_CASE("a lease over the budget exceeds the peak and takes nothing of the budget") {
  Ranges ranges(kPage, 2 * kPage, /*power_of_two=*/false);
  const Ranges::Range a = lease(ranges, kPage);
  CHECK_FALSE(ranges.try_lease(2 * kPage, [](int64_t) {}));
  const Ranges::Range over = ranges.lease_over_budget(2 * kPage);
  CHECK(over.slab != a.slab);
  CHECK(ranges.peak_leased_bytes() == 3 * kPage);
  CHECK(lease(ranges, kPage).slab != over.slab);
  CHECK(ranges.reserved_bytes() == 2 * kPage);
}

}  // namespace
}  // namespace memtune::schedule::host_ranges_test
