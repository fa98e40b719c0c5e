// Why: the cost of a frame must depend on what fits on the screen. Merged events must still be counted.
#include "gui/model/bars.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "gui/model/timeline_model.h"
#include "tests/gui/traces.h"

namespace memtune::bars_test {

using namespace memtune;

namespace {

// Spans of `length` nanoseconds, one every `pitch` nanoseconds.
gui::TimelineModel spans(int64_t count, int64_t pitch, int64_t length) {
  trace::Trace trace;
  for (int64_t i = 0; i < count; ++i)
    test::add_event(trace, trace::EventKind::kernel, test::kCompute, "k", i * pitch, i * pitch + length);
  return gui::make_timeline(trace);
}

size_t counted(const std::vector<gui::Bar>& bars) {
  return std::accumulate(bars.begin(), bars.end(), size_t{0},
                         [](size_t sum, const gui::Bar& bar) { return sum + bar.count; });
}

}  // namespace

TEST_CASE("spans wider than a pixel are separate bars") {
  const auto model = spans(10, 100, 60);
  const auto bars = gui::visible_bars(model.rows[0], 0, 1000, 10);
  REQUIRE(bars.size() == 10);
  CHECK(bars[3].start_ns == 300);
  CHECK(bars[3].end_ns == 360);
  CHECK(bars[3].first == 3);
}

TEST_CASE("spans within a pixel become one bar with their number and busy share") {
  const auto model = spans(1000, 10, 5);
  const auto bars = gui::visible_bars(model.rows[0], 0, 10'000, 100);
  REQUIRE(bars.size() == 1);
  CHECK(bars[0].count == 1000);
  CHECK(bars[0].busy == doctest::Approx(0.5));
  CHECK(bars[0].end_ns >= 9995);
}

TEST_CASE("a wide span among narrow ones stays a bar of its own") {
  trace::Trace trace;
  for (int64_t i = 0; i < 50; ++i)
    test::add_event(trace, trace::EventKind::kernel, test::kCompute, "k", i * 10, i * 10 + 5);
  test::add_event(trace, trace::EventKind::kernel, test::kCompute, "wide", 500, 5500);
  for (int64_t i = 0; i < 50; ++i)
    test::add_event(trace, trace::EventKind::kernel, test::kCompute, "k", 5500 + i * 10, 5500 + i * 10 + 5);
  const auto model = gui::make_timeline(trace);
  const auto bars = gui::visible_bars(model.rows[0], 0, 6000, 100);
  const auto alone = std::find_if(bars.begin(), bars.end(), [](const gui::Bar& bar) { return bar.count == 1; });
  REQUIRE(alone != bars.end());
  CHECK(alone->first == 50);
  CHECK(alone->end_ns == 5500);
  CHECK(counted(bars) == 101);
  CHECK(bars.size() <= 5);
}

TEST_CASE("at every zoom each visible span counts once and no more bars are drawn than fit") {
  const auto model = spans(100'000, 1000, 700);
  for (double ns_per_pixel = 1; ns_per_pixel < 1e6; ns_per_pixel *= 3.7) {
    CAPTURE(ns_per_pixel);
    const double end = std::min(1e8, 1600 * ns_per_pixel);
    const auto bars = gui::visible_bars(model.rows[0], 0, end, ns_per_pixel);
    CHECK(static_cast<double>(counted(bars)) >= std::floor(end / 1000));
    CHECK(bars.size() <= 1601);
    for (size_t i = 1; i < bars.size(); ++i) CHECK(bars[i].first == bars[i - 1].first + bars[i - 1].count);
  }
}

TEST_CASE("only spans that overlap the view are visited") {
  const auto model = spans(10, 100, 60);
  const auto bars = gui::visible_bars(model.rows[0], 250, 420, 1);
  REQUIRE(bars.size() == 3);  // the span from 200 to 260 overlaps
  CHECK(bars.front().first == 2);
  CHECK(bars.back().first == 4);
}

}  // namespace memtune::bars_test
