#include "gui/model/trip.h"

#include <doctest/doctest.h>

#include "tests/gui/traces.h"

using namespace memtune;
using trace::Kind;

namespace {

std::vector<Kind> kinds(const trace::Trace& trace, const gui::Trip& trip) {
  std::vector<Kind> found;
  for (const uint32_t index : trip) found.push_back(trace.events[index].kind);
  return found;
}

}  // namespace

TEST_CASE("a value makes its trip once a step, the save before the copy that it causes") {
  const trace::Trace trace = test::small_trace(3);
  const auto model = gui::make_timeline(trace);
  const auto trips = gui::trips_of(trace, model, 2);
  REQUIRE(trips.size() == 3);
  for (const gui::Trip& trip : trips) {
    CHECK(kinds(trace, trip) ==
          std::vector<Kind>{Kind::save, Kind::copy_out, Kind::disk_write, Kind::disk_read, Kind::copy_in, Kind::use});
  }
  CHECK(gui::extent(trace, trips[1]).start == 12 * test::kMs);
  CHECK(gui::extent(trace, trips[1]).end == 18 * test::kMs);
}

TEST_CASE("pieces of a large value and two uses stay one trip") {
  trace::Trace trace;
  trace.values.resize(1);
  const std::vector<Kind> order = {Kind::save,       Kind::copy_out,  Kind::disk_write, Kind::copy_out,
                                   Kind::disk_write, Kind::disk_read, Kind::copy_in,    Kind::disk_read,
                                   Kind::copy_in,    Kind::use,       Kind::use};
  for (int step = 0; step < 2; ++step)
    for (size_t i = 0; i < order.size(); ++i)
      test::add_event(trace, order[i], to_string(order[i]), "v", step * 100 + i * 2, step * 100 + i * 2 + 1, 1, 1);
  const auto trips = gui::trips_of(trace, gui::make_timeline(trace), 1);
  REQUIRE(trips.size() == 2);
  CHECK(kinds(trace, trips[0]) == order);
}

TEST_CASE("a value that is made again has no way out") {
  trace::Trace trace;
  trace.values.resize(1);
  for (int step = 0; step < 2; ++step) {
    test::add_event(trace, Kind::kernel, "compute", "norm", step * 100, step * 100 + 5, 0, 1);
    test::add_event(trace, Kind::use, "values", "norm", step * 100 + 5, step * 100 + 5, 0, 1);
  }
  const auto trips = gui::trips_of(trace, gui::make_timeline(trace), 1);
  REQUIRE(trips.size() == 2);
  CHECK(kinds(trace, trips[1]) == std::vector<Kind>{Kind::kernel, Kind::use});
}

TEST_CASE("the nearest trip is the one of the step that is looked at") {
  const trace::Trace trace = test::small_trace(3);
  const auto model = gui::make_timeline(trace);
  CHECK(gui::extent(trace, gui::trip_near(trace, model, 2, 14 * test::kMs)).start == 12 * test::kMs);
  CHECK(gui::extent(trace, gui::trip_near(trace, model, 2, 99 * test::kMs)).start == 22 * test::kMs);
  CHECK(gui::trip_near(trace, model, 0, 0).empty());
  CHECK(gui::trip_near(trace, model, 77, 0).empty());
}
