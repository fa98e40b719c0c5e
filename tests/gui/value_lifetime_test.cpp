#include "gui/model/value_lifetime.h"

#include <doctest/doctest.h>

#include "tests/gui/traces.h"

namespace memtune::value_lifetime_test {

using namespace memtune;
using trace::EventKind;

namespace {

std::vector<EventKind> kinds(const trace::Trace& trace, const gui::ValueLifetime& lifetime) {
  std::vector<EventKind> found;
  for (const uint32_t index : lifetime) found.push_back(trace.events[index].kind);
  return found;
}

}  // namespace

TEST_CASE("a tensor has one lifetime for each step and its save precedes its copy") {
  const trace::Trace trace = test::small_trace(3);
  const auto model = gui::make_timeline(trace);
  const auto lifetimes = gui::value_lifetimes(trace, model, trace::ValueId(1));
  REQUIRE(lifetimes.size() == 3);
  for (const gui::ValueLifetime& lifetime : lifetimes) {
    CHECK(kinds(trace, lifetime) == std::vector<EventKind>{EventKind::save, EventKind::copy_out, EventKind::disk_write,
                                                           EventKind::disk_read, EventKind::copy_in, EventKind::use});
  }
  CHECK(gui::extent(trace, lifetimes[1]).start == 12 * test::kMs);
  CHECK(gui::extent(trace, lifetimes[1]).end == 18 * test::kMs);
}

TEST_CASE("pieces of a large tensor and two uses belong to one lifetime") {
  trace::Trace trace;
  trace.values.resize(1);
  const std::vector<EventKind> order = {EventKind::save,     EventKind::copy_out,   EventKind::disk_write,
                                        EventKind::copy_out, EventKind::disk_write, EventKind::disk_read,
                                        EventKind::copy_in,  EventKind::disk_read,  EventKind::copy_in,
                                        EventKind::use,      EventKind::use};
  for (int step = 0; step < 2; ++step)
    for (size_t i = 0; i < order.size(); ++i)
      test::add_event(trace, order[i], {}, "v", step * 100 + i * 2, step * 100 + i * 2 + 1, 1, trace::ValueId(0));
  const auto lifetimes = gui::value_lifetimes(trace, gui::make_timeline(trace), trace::ValueId(0));
  REQUIRE(lifetimes.size() == 2);
  CHECK(kinds(trace, lifetimes[0]) == order);
}

TEST_CASE("a recomputed tensor has no copies") {
  trace::Trace trace;
  trace.values.resize(1);
  for (int step = 0; step < 2; ++step) {
    test::add_event(trace, EventKind::kernel, test::kCompute, "norm", step * 100, step * 100 + 5, 0, trace::ValueId(0));
    test::add_event(trace, EventKind::use, test::kValues, "norm", step * 100 + 5, step * 100 + 5, 0, trace::ValueId(0));
  }
  const auto lifetimes = gui::value_lifetimes(trace, gui::make_timeline(trace), trace::ValueId(0));
  REQUIRE(lifetimes.size() == 2);
  CHECK(kinds(trace, lifetimes[1]) == std::vector<EventKind>{EventKind::kernel, EventKind::use});
}

TEST_CASE("lifetime_near returns the lifetime in the viewed step") {
  const trace::Trace trace = test::small_trace(3);
  const auto model = gui::make_timeline(trace);
  CHECK(gui::extent(trace, gui::lifetime_near(trace, model, trace::ValueId(1), 14 * test::kMs)).start ==
        12 * test::kMs);
  CHECK(gui::extent(trace, gui::lifetime_near(trace, model, trace::ValueId(1), 99 * test::kMs)).start ==
        22 * test::kMs);
  CHECK(gui::lifetime_near(trace, model, {}, 0).empty());
  CHECK(gui::lifetime_near(trace, model, trace::ValueId(77), 0).empty());
}

}  // namespace memtune::value_lifetime_test
