#include "gui/model/trip.h"

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

int64_t distance(const trace::Interval& range, int64_t time) {
  return time < range.start ? range.start - time : time > range.end ? time - range.end : 0;
}

}  // namespace

std::vector<Trip> trips_of(const trace::Trace& trace, const TimelineModel& model, trace::ValueId value) {
  std::vector<Trip> trips;
  if (value.index() + 1 >= model.value_first.size()) return trips;
  int last = 3;
  for (size_t i = model.value_first[value.index()]; i < model.value_first[value.index() + 1]; ++i) {
    const int now = phase(trace.events[model.value_events[i]].kind);
    if (now < last && (trips.empty() || last > 0)) trips.emplace_back();
    trips.back().push_back(model.value_events[i]);
    last = now;
  }
  // A copy may begin at the time of the save that caused it.
  for (Trip& trip : trips)
    std::stable_sort(trip.begin(), trip.end(), [&](uint32_t a, uint32_t b) {
      const trace::Event &x = trace.events[a], &y = trace.events[b];
      return x.start_ns != y.start_ns ? x.start_ns < y.start_ns
                                      : x.kind == trace::EventKind::save && y.kind != trace::EventKind::save;
    });
  return trips;
}

Trip trip_near(const trace::Trace& trace, const TimelineModel& model, trace::ValueId value, int64_t time_ns) {
  std::vector<Trip> trips = trips_of(trace, model, value);
  const auto nearest = std::min_element(trips.begin(), trips.end(), [&](const Trip& a, const Trip& b) {
    return distance(extent(trace, a), time_ns) < distance(extent(trace, b), time_ns);
  });
  return nearest == trips.end() ? Trip() : std::move(*nearest);
}

trace::Interval extent(const trace::Trace& trace, const Trip& trip) {
  if (trip.empty()) return {};
  trace::Interval range{trace.events[trip.front()].start_ns, trace.events[trip.front()].end_ns};
  for (const uint32_t index : trip) range.end = std::max(range.end, trace.events[index].end_ns);
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
    default: return "made again";
  }
}

}  // namespace memtune::gui
