// What the device did with each moment of the traced steps: six sets that share no moment and together are the steps.
// Of a trace of several ranks all this is of Trace::measured_rank.
// `in` and `out` add up to TransferFigures::exposed_ms, but for copies outside of steps.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/interval.h"

namespace memtune::trace {

// In order of time: the regions of kind step; without one the time from the first event to the last end, and
// nothing of an empty trace.
std::vector<Interval> find_steps(const Trace& trace);

struct Occupation {
  Intervals compute;      // kernels and memsets
  Intervals in;           // a copy in, and no compute
  Intervals out;          // a copy out, and none of the former
  Intervals collectives;  // a collective, and none of the former
  Intervals wait;         // a recorded wait or a copy within the device, and none of the former
  Intervals idle;         // nothing; empty too where only regions were recorded: nobody watched the device
};
Occupation find_occupation(const Trace& trace, const std::vector<Interval>& steps);

// The events' time as a set; `wanted` takes an Event.
template <typename Wanted>
Intervals time_of(const Trace& trace, Wanted wanted) {
  std::vector<Interval> intervals;
  for (const Event& event : trace.events) {
    if (trace.counts(event) && wanted(event)) intervals.push_back({event.start_ns, event.end_ns});
  }
  return unite(std::move(intervals));
}

Intervals time_of_kinds(const Trace& trace, std::initializer_list<EventKind> kinds);

// How much of `stretch` lies in `set`, in nanoseconds; the time this takes does not grow with what lies outside.
int64_t time_within(const Interval& stretch, const Intervals& set);
inline int64_t time_within(const Event& event, const Intervals& set) {
  return time_within(Interval{event.start_ns, event.end_ns}, set);
}

}  // namespace memtune::trace
