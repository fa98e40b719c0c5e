// Merges traces of several ranks, for any difference of their clocks.
#include "core/record/trace/ranks.h"

#include <doctest/doctest.h>

#include "core/record/trace/bounds.h"

namespace memtune::trace_ranks_test {

using namespace memtune;
using namespace memtune::trace;

namespace {

Trace one_copy(int64_t start_ns) {
  Trace trace;
  trace.tracks = {{TrackRole::copy_out, 7, 0}};
  trace.names = {"copy"};
  trace.events.push_back({EventKind::copy_out, 0, 0, start_ns, start_ns + 1, 9});
  return trace;
}

}  // namespace

TEST_CASE("events of a rank are shifted by the clock difference and get their own tracks") {
  Trace all = one_copy(5);
  add_rank(one_copy(7), 1, 100, all);
  REQUIRE(all.events.size() == 2);
  CHECK(all.events[1].start_ns == 107);
  CHECK(all.tracks[all.events[1].track].rank == 1);
}

TEST_CASE("events beyond the time range are dropped and the count of lost records saturates") {
  Trace all = one_copy(5);
  add_rank(one_copy(kMaxAbsTimeNs - 1), 1, kMaxAbsTimeNs, all);
  add_rank(one_copy(-kMaxAbsTimeNs), 2, -kMaxAbsTimeNs, all);
  CHECK(all.events.size() == 1);
  CHECK(all.lost_records == 2);
  Trace lossy = one_copy(5);
  lossy.lost_records = kMaxCount;
  add_rank(lossy, 3, 0, all);
  add_rank(lossy, 4, 0, all);
  CHECK(all.lost_records == kMaxCount);
}

}  // namespace memtune::trace_ranks_test
