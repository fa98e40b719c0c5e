// Compares the waits that RedundantStreamWaitFilter calls redundant with those that follow from all earlier waits.
#include "core/base/device/redundant_stream_wait_filter.h"

#include <doctest/doctest.h>

#include "tests/support/random.h"
namespace memtune::device::stream_order_test {
namespace {

using Point = RedundantStreamWaitFilter::Point;

TEST_CASE("a wait for a point orders the stream after all earlier points but not after later ones") {
  const int a = 0, b = 0;
  RedundantStreamWaitFilter order;
  const Point first = order.record(&a), second = order.record(&a), third = order.record(&a);
  CHECK_FALSE(order.is_ordered_after(&b, first));
  order.note_wait(&b, second);
  CHECK(order.is_ordered_after(&b, first));
  CHECK(order.is_ordered_after(&b, second));
  CHECK_FALSE(order.is_ordered_after(&b, third));
  order.note_wait(&b, first);  // does not revoke the later point
  CHECK(order.is_ordered_after(&b, second));
}

TEST_CASE("a stream is ordered after its own points") {
  const int a = 0;
  RedundantStreamWaitFilter order;
  CHECK(order.is_ordered_after(&a, order.record(&a)));
}

TEST_CASE("a point implies only earlier points of its stream") {
  const int a = 0, b = 0;
  RedundantStreamWaitFilter order;
  const Point first = order.record(&a), other = order.record(&b), last = order.record(&a);
  CHECK(last.implies(first));
  CHECK(last.implies(last));
  CHECK_FALSE(first.implies(last));
  CHECK_FALSE(last.implies(other));
}

TEST_CASE("a wait on one stream does not order another stream") {
  const int a = 0, b = 0, c = 0;
  RedundantStreamWaitFilter order;
  const Point point = order.record(&a);
  order.note_wait(&b, point);
  CHECK_FALSE(order.is_ordered_after(&c, point));
}

TEST_CASE("only redundant waits are called redundant") {
  tests::Random random(7);
  for (int round = 0; round < 50; ++round) {
    const int streams[4] = {};
    RedundantStreamWaitFilter order;
    std::vector<Point> points, note_wait[4];
    for (int i = 0; i < 100; ++i) {
      if (random.one_in(2)) points.push_back(order.record(&streams[random.below(4)]));
      if (points.empty()) continue;
      const Point& point = points[static_cast<size_t>(random.below(static_cast<int>(points.size())))];
      const int by = random.below(4);
      bool behind = point.stream == &streams[by];
      for (const Point& earlier : note_wait[by])
        behind = behind || (earlier.stream == point.stream && earlier.number >= point.number);
      REQUIRE(order.is_ordered_after(&streams[by], point) == behind);
      if (random.one_in(2)) continue;
      order.note_wait(&streams[by], point);
      note_wait[by].push_back(point);
    }
  }
}

}  // namespace
}  // namespace memtune::device::stream_order_test
