// Breakdown of the device's time in traced steps: six disjoint sets that together cover the steps. It covers
// Trace::measured_rank only. `in` and `out` sum to StepHostDeviceCopyStats::exposed_ms, without copies outside of
// steps.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/record/trace/time_interval.h"
#include "core/record/trace/trace_event.h"

namespace memtune::trace {

// Sorted regions of kind step. Without such regions: the time from the first event to the last end, or nothing for an
// empty trace.
std::vector<TimeInterval> find_steps(const Trace& trace);

struct StepDeviceTimeBreakdown {
  Intervals compute;      // kernels and memsets
  Intervals in;           // copies to the device without compute
  Intervals out;          // copies to the host, without the above
  Intervals collectives;  // collectives, without the above
  Intervals wait;         // recorded waits and copies within the device, without the above
  Intervals idle;         // the rest; empty if the trace has no device activity, only regions
};
StepDeviceTimeBreakdown find_step_time_breakdown(const Trace& trace, const std::vector<TimeInterval>& steps);

// Union of the times of all events for which `wanted(event)` is true.
template <typename Wanted>
Intervals time_of(const Trace& trace, Wanted wanted) {
  std::vector<TimeInterval> intervals;
  for (const TraceEvent& event : trace.events) {
    if (trace.counts(event) && wanted(event)) intervals.push_back({event.start_ns, event.end_ns});
  }
  return unite(std::move(intervals));
}

Intervals time_of_kinds(const Trace& trace, std::initializer_list<EventKind> kinds);

// Overlap of `stretch` with `set`, in ns. Takes time proportional to the overlapping intervals.
int64_t time_within(const TimeInterval& stretch, const Intervals& set);
inline int64_t time_within(const TraceEvent& event, const Intervals& set) {
  return time_within(TimeInterval{event.start_ns, event.end_ns}, set);
}

}  // namespace memtune::trace
