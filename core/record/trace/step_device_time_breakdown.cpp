#include "core/record/trace/step_device_time_breakdown.h"

#include <algorithm>
#include <cstdint>

namespace memtune::trace {
namespace {

std::vector<TimeInterval> whole_time(const Trace& trace) {
  TimeInterval all{INT64_MAX, INT64_MIN};
  for (const TraceEvent& event : trace.events) {
    if (!trace.counts(event)) continue;
    all.start = std::min(all.start, event.start_ns);
    all.end = std::max({all.end, event.start_ns, event.end_ns});
  }
  return all.start > all.end ? std::vector<TimeInterval>() : std::vector{all};
}

bool has_work(const Trace& trace) {
  return !time_of_kinds(trace, {EventKind::kernel, EventKind::memset, EventKind::copy_in, EventKind::copy_out,
                                EventKind::copy_device, EventKind::wait, EventKind::collective})
              .empty();
}

}  // namespace

std::vector<TimeInterval> find_steps(const Trace& trace) {
  std::vector<TimeInterval> steps;
  for (const TraceEvent& event : trace.events) {
    if (event.region.kind == TraceRegionLevel::step && event.end_ns > event.start_ns && trace.counts(event))
      steps.push_back({event.start_ns, event.end_ns});
  }
  if (steps.empty()) return whole_time(trace);
  std::ranges::sort(steps, {}, &TimeInterval::start);
  return steps;
}

StepDeviceTimeBreakdown find_step_time_breakdown(const Trace& trace, const std::vector<TimeInterval>& steps) {
  Intervals left = unite(steps);
  const auto take = [&](const Intervals& set) {
    Intervals taken = intersect(left, set);
    left = subtract(left, taken);
    return taken;
  };
  StepDeviceTimeBreakdown breakdown;
  breakdown.compute = take(time_of_kinds(trace, {EventKind::kernel, EventKind::memset}));
  breakdown.in = take(time_of_kinds(trace, {EventKind::copy_in}));
  breakdown.out = take(time_of_kinds(trace, {EventKind::copy_out}));
  breakdown.collectives = take(time_of_kinds(trace, {EventKind::collective}));
  breakdown.wait = take(time_of_kinds(trace, {EventKind::wait, EventKind::copy_device}));
  if (has_work(trace)) breakdown.idle = std::move(left);
  return breakdown;
}

Intervals time_of_kinds(const Trace& trace, std::initializer_list<EventKind> kinds) {
  return time_of(trace, [&](const TraceEvent& event) { return std::ranges::count(kinds, event.kind) > 0; });
}

int64_t time_within(const TimeInterval& stretch, const Intervals& set) {
  int64_t time = 0;
  auto next = std::ranges::upper_bound(set, stretch.start, {}, &TimeInterval::end);
  for (; next != set.end() && next->start < stretch.end; ++next)
    time += std::min(stretch.end, next->end) - std::max(stretch.start, next->start);
  return time;
}

}  // namespace memtune::trace
