// Overlap and exposed copy time use set algebra over intervals. Checked by hand and against random bit sets.
#include "core/record/trace/time_interval.h"

#include <doctest/doctest.h>

#include <bitset>
#include <ostream>
#include <random>

using namespace memtune::trace;

namespace memtune::trace {
static bool operator==(const TimeInterval& a, const TimeInterval& b) { return a.start == b.start && a.end == b.end; }
}  // namespace memtune::trace

namespace {

using Bits = std::bitset<64>;

Bits bits_of(const std::vector<TimeInterval>& intervals) {
  Bits bits;
  for (const TimeInterval& interval : intervals)
    for (int64_t i = interval.start; i < interval.end; ++i) bits.set(static_cast<size_t>(i));
  return bits;
}

bool well_formed(const Intervals& intervals) {
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].start >= intervals[i].end) return false;
    if (i > 0 && intervals[i - 1].end > intervals[i].start) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the union of no or empty intervals is empty") {
  CHECK(unite({}).empty());
  CHECK(unite({{5, 5}, {7, 3}}).empty());
  CHECK(total({}) == 0);
  CHECK(intersect({}, {{0, 10}}).empty());
  CHECK(intersect({{0, 10}}, {}).empty());
}

TEST_CASE("overlapping and nested and touching intervals become one") {
  CHECK(unite({{5, 9}, {0, 6}}) == Intervals{{0, 9}});
  CHECK(unite({{0, 9}, {2, 3}, {8, 10}}) == Intervals{{0, 10}});
  CHECK(unite({{0, 4}, {4, 6}}) == Intervals{{0, 6}});
  CHECK(unite({{8, 9}, {0, 4}, {4, 4}, {5, 6}}) == Intervals{{0, 4}, {5, 6}, {8, 9}});
}

TEST_CASE("an intersection keeps the common parts") {
  CHECK(intersect({{0, 4}, {6, 10}}, {{2, 8}}) == Intervals{{2, 4}, {6, 8}});
  CHECK(intersect({{0, 4}}, {{4, 8}}).empty());
  CHECK(total(intersect({{0, 4}, {6, 10}}, {{2, 8}})) == 4);
}

TEST_CASE("unions and intersections agree with bit sets") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TimeInterval> any[2];
    for (auto& intervals : any) {
      for (auto count = random() % 8; count > 0; --count) {
        const auto start = static_cast<int64_t>(random() % 60);
        intervals.push_back({start, start + static_cast<int64_t>(random() % 12) - 2});
        if (intervals.back().end > 64) intervals.back().end = 64;
      }
    }
    const Intervals a = unite(any[0]), b = unite(any[1]), both = intersect(a, b);
    REQUIRE(well_formed(a));
    REQUIRE(well_formed(both));
    REQUIRE(bits_of(a) == bits_of(any[0]));
    REQUIRE(bits_of(both) == (bits_of(any[0]) & bits_of(any[1])));
    REQUIRE(total(both) == static_cast<int64_t>(bits_of(both).count()));
  }
}
