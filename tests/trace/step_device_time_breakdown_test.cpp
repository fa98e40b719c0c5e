// Findings and comparisons assign each moment of a step to one activity of the device, without overlap or gap.
#include "core/record/trace/step_device_time_breakdown.h"

#include <doctest/doctest.h>

namespace memtune::step_time_breakdown_test {

using namespace memtune::trace;

namespace {

TraceEvent event(EventKind kind, int64_t start, int64_t end) {
  return {.kind = kind, .start_ns = start, .end_ns = end};
}

std::vector<TimeInterval> whole(int64_t start, int64_t end) { return {{start, end}}; }

}  // namespace

TEST_CASE("subtract leaves the parts outside the second set") {
  const auto left = subtract({{0, 10}, {20, 30}, {40, 50}}, {{2, 4}, {6, 25}, {28, 29}, {45, 60}});
  const std::vector<std::pair<int64_t, int64_t>> expected = {{0, 2}, {4, 6}, {25, 28}, {29, 30}, {40, 45}};
  REQUIRE(left.size() == expected.size());
  for (size_t i = 0; i < left.size(); ++i) {
    CHECK(left[i].start == expected[i].first);
    CHECK(left[i].end == expected[i].second);
  }
  CHECK(subtract({{5, 9}}, {{0, 20}}).empty());
  CHECK(total(subtract({{0, 3}, {5, 9}}, {{2, 6}})) == 5);
}

TEST_CASE("a moment counts as the first of compute and in and out and collectives and wait and idle") {
  Trace trace;
  trace.events = {
      event(EventKind::kernel, 0, 40),    event(EventKind::copy_in, 30, 50), event(EventKind::copy_out, 45, 60),
      event(EventKind::wait, 35, 70),     event(EventKind::memset, 80, 81),  event(EventKind::copy_device, 81, 83),
      event(EventKind::disk_read, 0, 90), event(EventKind::op, 0, 90),       event(EventKind::collective, 55, 66)};
  const StepDeviceTimeBreakdown found = find_step_time_breakdown(trace, whole(0, 100));
  CHECK(total(found.compute) == 41);
  CHECK(total(found.in) == 10);
  CHECK(total(found.out) == 10);
  CHECK(total(found.collectives) == 6);
  CHECK(total(found.wait) == 6);
  CHECK(total(found.idle) == 27);
}

TEST_CASE("a device without recorded kernels is not idle but gaps between kernels are") {
  Trace trace;
  trace.events = {event(EventKind::region, 0, 40)};
  trace.events[0].region.kind = TraceRegionLevel::step;
  CHECK(find_step_time_breakdown(trace, find_steps(trace)).idle.empty());
  trace.events.push_back(event(EventKind::kernel, 50, 60));
  CHECK(total(find_step_time_breakdown(trace, find_steps(trace)).idle) == 40);
}

TEST_CASE("time outside of steps is not counted") {
  Trace trace;
  trace.events = {event(EventKind::kernel, 0, 40)};
  const StepDeviceTimeBreakdown found = find_step_time_breakdown(trace, {{10, 20}, {30, 50}});
  CHECK(total(found.compute) == 20);
  CHECK(total(found.idle) == 10);
}

TEST_CASE("steps are the step regions in order or the whole trace or none if the trace is empty") {
  Trace trace;
  CHECK(find_steps(trace).empty());
  trace.events = {event(EventKind::kernel, 5, 40), event(EventKind::kernel, 2, 3)};
  REQUIRE(find_steps(trace).size() == 1);
  CHECK(find_steps(trace)[0].start == 2);
  CHECK(find_steps(trace)[0].end == 40);
  for (const int64_t start : {20, 10}) {
    trace.events.push_back(event(EventKind::region, start, start + 10));
    trace.events.back().region.kind = TraceRegionLevel::step;
  }
  trace.events[0].name = trace.name("step");  // names do not matter
  const auto steps = find_steps(trace);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].start == 10);
  CHECK(steps[1].end == 30);
}

TEST_CASE("time_within gives the part of an event within a set") {
  const Intervals set = {{0, 10}, {20, 30}, {40, 50}};
  CHECK(time_within(event(EventKind::kernel, 5, 45), set) == 20);
  CHECK(time_within(event(EventKind::kernel, 10, 20), set) == 0);
  CHECK(time_within(event(EventKind::kernel, 60, 70), set) == 0);
}

}  // namespace memtune::step_time_breakdown_test
