#include "gui/model/value_lifetime.h"

#include <algorithm>

namespace memtune::gui {
namespace {

// Phases of a lifetime: out, back, use. They never decrease within a lifetime. Pieces of a large tensor mix within a
// phase.
int phase(trace::EventKind kind) {
  switch (kind) {
    case trace::EventKind::save:
    case trace::EventKind::copy_out:
    case trace::EventKind::disk_write: return 0;
    case trace::EventKind::use: return 2;
    default: return 1;
  }
}

int64_t distance(const trace::TimeInterval& range, int64_t time) {
  return time < range.start ? range.start - time : time > range.end ? time - range.end : 0;
}

}  // namespace

std::vector<ValueLifetime> value_lifetimes(const trace::Trace& trace, const TimelineModel& model,
                                           trace::ValueId value) {
  std::vector<ValueLifetime> lifetimes;
  if (value.index() + 1 >= model.value_first.size()) return lifetimes;
  int last = 3;
  for (size_t i = model.value_first[value.index()]; i < model.value_first[value.index() + 1]; ++i) {
    const int now = phase(trace.events[model.value_events[i]].kind);
    if (now < last && (lifetimes.empty() || last > 0)) lifetimes.emplace_back();
    lifetimes.back().push_back(model.value_events[i]);
    last = now;
  }
  // A copy may begin at the time of the save that caused it.
  for (ValueLifetime& lifetime : lifetimes)
    std::stable_sort(lifetime.begin(), lifetime.end(), [&](uint32_t a, uint32_t b) {
      const trace::TraceEvent &x = trace.events[a], &y = trace.events[b];
      return x.start_ns != y.start_ns ? x.start_ns < y.start_ns
                                      : x.kind == trace::EventKind::save && y.kind != trace::EventKind::save;
    });
  return lifetimes;
}

ValueLifetime lifetime_near(const trace::Trace& trace, const TimelineModel& model, trace::ValueId value,
                            int64_t time_ns) {
  std::vector<ValueLifetime> lifetimes = value_lifetimes(trace, model, value);
  const auto nearest =
      std::min_element(lifetimes.begin(), lifetimes.end(), [&](const ValueLifetime& a, const ValueLifetime& b) {
        return distance(extent(trace, a), time_ns) < distance(extent(trace, b), time_ns);
      });
  return nearest == lifetimes.end() ? ValueLifetime() : std::move(*nearest);
}

trace::TimeInterval extent(const trace::Trace& trace, const ValueLifetime& lifetime) {
  if (lifetime.empty()) return {};
  trace::TimeInterval range{trace.events[lifetime.front()].start_ns, trace.events[lifetime.front()].end_ns};
  for (const uint32_t index : lifetime) range.end = std::max(range.end, trace.events[index].end_ns);
  return range;
}

std::string stage_name(trace::EventKind kind) {
  switch (kind) {
    case trace::EventKind::save: return "saved";
    case trace::EventKind::copy_out: return "copied out";
    case trace::EventKind::disk_write: return "written to disk";
    case trace::EventKind::disk_read: return "read from disk";
    case trace::EventKind::copy_in: return "copied in";
    case trace::EventKind::use: return "used";
    case trace::EventKind::wait: return "waited for";
    default: return "recomputed";
  }
}

}  // namespace memtune::gui
