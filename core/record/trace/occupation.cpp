#include "core/record/trace/occupation.h"

#include <algorithm>
#include <cstdint>

namespace memtune::trace {
namespace {

std::vector<Interval> whole_time(const Trace& trace) {
  Interval all{INT64_MAX, INT64_MIN};
  for (const Event& event : trace.events) {
    if (!trace.counts(event)) continue;
    all.start = std::min(all.start, event.start_ns);
    all.end = std::max({all.end, event.start_ns, event.end_ns});
  }
  return all.start > all.end ? std::vector<Interval>() : std::vector{all};
}

bool has_work(const Trace& trace) {
  return !time_of_kinds(trace, {EventKind::kernel, EventKind::memset, EventKind::copy_in, EventKind::copy_out,
                                EventKind::copy_device, EventKind::wait, EventKind::collective})
              .empty();
}

}  // namespace

std::vector<Interval> find_steps(const Trace& trace) {
  std::vector<Interval> steps;
  for (const Event& event : trace.events) {
    if (event.region.kind == RegionKind::step && event.end_ns > event.start_ns && trace.counts(event))
      steps.push_back({event.start_ns, event.end_ns});
  }
  if (steps.empty()) return whole_time(trace);
  std::ranges::sort(steps, {}, &Interval::start);
  return steps;
}

Occupation find_occupation(const Trace& trace, const std::vector<Interval>& steps) {
  Intervals left = unite(steps);
  const auto take = [&](const Intervals& set) {
    Intervals taken = intersect(left, set);
    left = subtract(left, taken);
    return taken;
  };
  Occupation occupation;
  occupation.compute = take(time_of_kinds(trace, {EventKind::kernel, EventKind::memset}));
  occupation.in = take(time_of_kinds(trace, {EventKind::copy_in}));
  occupation.out = take(time_of_kinds(trace, {EventKind::copy_out}));
  occupation.collectives = take(time_of_kinds(trace, {EventKind::collective}));
  occupation.wait = take(time_of_kinds(trace, {EventKind::wait, EventKind::copy_device}));
  if (has_work(trace)) occupation.idle = std::move(left);
  return occupation;
}

Intervals time_of_kinds(const Trace& trace, std::initializer_list<EventKind> kinds) {
  return time_of(trace, [&](const Event& event) { return std::ranges::count(kinds, event.kind) > 0; });
}

int64_t time_within(const Interval& stretch, const Intervals& set) {
  int64_t time = 0;
  auto next = std::ranges::upper_bound(set, stretch.start, {}, &Interval::end);
  for (; next != set.end() && next->start < stretch.end; ++next)
    time += std::min(stretch.end, next->end) - std::max(stretch.start, next->start);
  return time;
}

}  // namespace memtune::trace
