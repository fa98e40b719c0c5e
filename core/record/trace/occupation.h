// Breakdown of the device's time in traced steps: six disjoint sets that together cover the steps. It covers
// Trace::measured_rank only. `in` and `out` sum to TransferFigures::exposed_ms, without copies outside of steps.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/record/trace/event.h"
#include "core/record/trace/interval.h"

namespace memtune::trace {

// Sorted regions of kind step. Without such regions: the time from the first event to the last end, or nothing for an
// empty trace.
std::vector<Interval> find_steps(const Trace& trace);

struct Occupation {
  Intervals compute;      // kernels and memsets
  Intervals in;           // copies to the device without compute
  Intervals out;          // copies to the host, without the above
  Intervals collectives;  // collectives, without the above
  Intervals wait;         // recorded waits and copies within the device, without the above
  Intervals idle;         // the rest; empty if the trace has no device activity, only regions
};
Occupation find_occupation(const Trace& trace, const std::vector<Interval>& steps);

// Union of the times of all events for which `wanted(event)` is true.
template <typename Wanted>
Intervals time_of(const Trace& trace, Wanted wanted) {
  std::vector<Interval> intervals;
  for (const Event& event : trace.events) {
    if (trace.counts(event) && wanted(event)) intervals.push_back({event.start_ns, event.end_ns});
  }
  return unite(std::move(intervals));
}

Intervals time_of_kinds(const Trace& trace, std::initializer_list<EventKind> kinds);

// Overlap of `stretch` with `set`, in ns. Takes time proportional to the overlapping intervals.
int64_t time_within(const Interval& stretch, const Intervals& set);
inline int64_t time_within(const Event& event, const Intervals& set) {
  return time_within(Interval{event.start_ns, event.end_ns}, set);
}

}  // namespace memtune::trace
