#include "gui/model/timeline_model.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

namespace memtune::gui {
namespace {

using trace::Event;
using trace::Trace;

// How tracks begin, as the recorder names them, in the order from the top, and what people read.
struct KnownTrack {
  std::string_view begins, shown;
};
constexpr std::array<KnownTrack, 12> kTracks = {{{"marks", "marks"},
                                                 {"host steps", "steps"},
                                                 {"device phases", "phases"},
                                                 {"device blocks", "blocks"},
                                                 {"compute", "compute"},
                                                 {"copy out", "copies out"},
                                                 {"copy in", "copies in"},
                                                 {"disk write", "disk write"},
                                                 {"disk read", "disk read"},
                                                 {"values", "saved, used"},
                                                 {"host ops", "host: ops"},
                                                 {"host", "host"}}};

size_t rank(const std::string& name) {
  const auto known = std::find_if(kTracks.begin(), kTracks.end(),
                                  [&](const KnownTrack& track) { return name.starts_with(track.begins); });
  return static_cast<size_t>(known - kTracks.begin());
}

// "copy out stream 20" -> "copies out (20)"
std::string shown_name(const std::string& name) {
  const size_t known = rank(name);
  if (known == kTracks.size()) return name;
  std::string rest = name.substr(kTracks[known].begins.size());
  rest.erase(0, rest.starts_with(" stream ") ? 8 : 1);
  const std::string shown(kTracks[known].shown);
  return rest.empty() ? shown : shown + " (" + rest + ")";
}

std::vector<uint32_t> in_order_of_time(const Trace& trace) {
  std::vector<uint32_t> order(trace.events.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&](uint32_t a, uint32_t b) {
    const Event &x = trace.events[a], &y = trace.events[b];
    return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : x.end_ns > y.end_ns;  // the outer one first
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::stable_sort(order.begin(), order.end(), before);
  return order;
}

// Damaged and foreign traces may hold anything: an event that ends before it begins is a moment.
int64_t end_of(const Event& event) { return std::max(event.start_ns, event.end_ns); }

void append(Row& row, uint32_t index, const Event& event) {
  if (row.busy_before_ns.empty()) row.busy_before_ns.push_back(0);
  row.events.push_back(index);
  row.starts_ns.push_back(event.start_ns);
  row.ends_ns.push_back(end_of(event));
  row.busy_before_ns.push_back(row.busy_before_ns.back() + (row.ends_ns.back() - row.starts_ns.back()));
}

constexpr size_t kMostRows = 24;  // of a lane: what overlaps more often shares the last

// Each event goes into the first row of its track where it overlaps nothing.
std::vector<std::vector<Row>> make_rows(const Trace& trace, const std::vector<uint32_t>& order) {
  std::vector<std::vector<Row>> rows(trace.tracks.size());
  for (const uint32_t index : order) {
    const Event& event = trace.events[index];
    std::vector<Row>& own = rows[event.track];
    const auto free =
        std::find_if(own.begin(), own.end(), [&](const Row& row) { return row.ends_ns.back() <= event.start_ns; });
    if (free != own.end()) {
      append(*free, index, event);
    } else if (own.size() < kMostRows) {
      append(own.emplace_back(), index, event);
    } else {
      Event shortened = event;
      shortened.start_ns = own.back().ends_ns.back();
      append(own.back(), index, shortened);
    }
  }
  return rows;
}

void add_lanes(const Trace& trace, const std::vector<uint32_t>& order, TimelineModel& model) {
  std::vector<std::vector<Row>> rows = make_rows(trace, order);
  std::vector<uint32_t> tracks(trace.tracks.size());
  std::iota(tracks.begin(), tracks.end(), 0U);
  std::stable_sort(tracks.begin(), tracks.end(),
                   [&](uint32_t a, uint32_t b) { return rank(trace.tracks[a].name) < rank(trace.tracks[b].name); });
  model.row_of_event.resize(trace.events.size());
  for (const uint32_t track : tracks) {
    if (rows[track].empty()) continue;
    model.lanes.push_back({shown_name(trace.tracks[track].name), track, model.rows.size(), rows[track].size()});
    for (Row& row : rows[track]) {
      for (const uint32_t index : row.events) model.row_of_event[index] = static_cast<uint32_t>(model.rows.size());
      model.rows.push_back(std::move(row));
    }
  }
}

void index_values(const Trace& trace, const std::vector<uint32_t>& order, TimelineModel& model) {
  model.value_first.assign(trace.values.size() + 1, 0);
  for (const Event& event : trace.events) {
    if (event.value > 0) ++model.value_first[event.value];
  }
  std::partial_sum(model.value_first.begin(), model.value_first.end(), model.value_first.begin());
  model.value_events.resize(model.value_first.back());
  std::vector<uint32_t> next(model.value_first.begin(), model.value_first.end() - 1);
  for (const uint32_t index : order) {
    if (const uint32_t value = trace.events[index].value; value > 0) model.value_events[next[value - 1]++] = index;
  }
}

trace::Interval whole_of(const Trace& trace, const std::vector<uint32_t>& order) {
  trace::Interval whole{INT64_MAX, INT64_MIN};
  const auto add = [&](int64_t start, int64_t end) {
    whole = {std::min(whole.start, start), std::max(whole.end, end)};
  };
  if (!order.empty()) add(trace.events[order.front()].start_ns, trace.events[order.front()].start_ns);
  for (const Event& event : trace.events) whole.end = std::max(whole.end, end_of(event));
  if (!trace.memory.empty()) add(trace.memory.front().time_ns, trace.memory.back().time_ns);
  if (whole.start > whole.end) whole = {0, 1};
  return {whole.start, std::max(whole.end, whole.start + 1)};
}

}  // namespace

TimelineModel make_timeline(const Trace& trace) {
  TimelineModel model;
  const std::vector<uint32_t> order = in_order_of_time(trace);
  model.whole = whole_of(trace, order);
  add_lanes(trace, order, model);
  index_values(trace, order, model);
  model.memory = make_memory(trace);
  return model;
}

}  // namespace memtune::gui
