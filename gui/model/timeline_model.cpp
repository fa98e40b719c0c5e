#include "gui/model/timeline_model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace memtune::gui {
namespace {

using trace::Trace;
using trace::TraceEvent;

// The lane's display name; "copies out (20)" is stream 20.
std::string display_name(const trace::Track& track) {
  static const std::map<trace::TrackRole, std::string> kShown = {{trace::TrackRole::steps, "steps"},
                                                                 {trace::TrackRole::phases, "phases"},
                                                                 {trace::TrackRole::blocks, "blocks"},
                                                                 {trace::TrackRole::compute, "compute"},
                                                                 {trace::TrackRole::copy_out, "copies out"},
                                                                 {trace::TrackRole::copy_in, "copies in"},
                                                                 {trace::TrackRole::collectives, "collectives"},
                                                                 {trace::TrackRole::disk_write, "disk write"},
                                                                 {trace::TrackRole::disk_read, "disk read"},
                                                                 {trace::TrackRole::values, "saved, used"},
                                                                 {trace::TrackRole::ops, "host: ops"},
                                                                 {trace::TrackRole::reruns, "host (reruns)"}};
  const auto shown = kShown.find(track.role);
  if (shown == kShown.end()) return to_string(track);
  return track.stream < 0 ? shown->second : shown->second + " (" + std::to_string(track.stream) + ")";
}

std::vector<uint32_t> in_order_of_time(const Trace& trace) {
  std::vector<uint32_t> order(trace.events.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&](uint32_t a, uint32_t b) {
    const TraceEvent &x = trace.events[a], &y = trace.events[b];
    return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : x.end_ns > y.end_ns;  // the outer one first
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::stable_sort(order.begin(), order.end(), before);
  return order;
}

// Damaged or foreign traces may have an event that ends before it begins; its length becomes 0.
int64_t end_of(const TraceEvent& event) { return std::max(event.start_ns, event.end_ns); }

void append(SpanRow& row, uint32_t index, const TraceEvent& event) {
  if (row.busy_before_ns.empty()) row.busy_before_ns.push_back(0);
  row.events.push_back(index);
  row.starts_ns.push_back(event.start_ns);
  row.ends_ns.push_back(end_of(event));
  row.busy_before_ns.push_back(row.busy_before_ns.back() + (row.ends_ns.back() - row.starts_ns.back()));
}

constexpr size_t kMaxRows = 24;  // per lane: events that overlap more often share the last row

// Puts each event into the first row of its track where it overlaps nothing.
std::vector<std::vector<SpanRow>> make_rows(const Trace& trace, const std::vector<uint32_t>& order) {
  std::vector<std::vector<SpanRow>> rows(trace.tracks.size());
  for (const uint32_t index : order) {
    const TraceEvent& event = trace.events[index];
    std::vector<SpanRow>& own = rows[event.track];
    const auto free =
        std::find_if(own.begin(), own.end(), [&](const SpanRow& row) { return row.ends_ns.back() <= event.start_ns; });
    if (free != own.end()) {
      append(*free, index, event);
    } else if (own.size() < kMaxRows) {
      append(own.emplace_back(), index, event);
    } else {
      TraceEvent shortened = event;
      shortened.start_ns = own.back().ends_ns.back();
      append(own.back(), index, shortened);
    }
  }
  return rows;
}

void add_lanes(const Trace& trace, const std::vector<uint32_t>& order, TimelineModel& model) {
  std::vector<std::vector<SpanRow>> rows = make_rows(trace, order);
  std::vector<uint32_t> tracks(trace.tracks.size());
  std::iota(tracks.begin(), tracks.end(), 0U);
  std::ranges::stable_sort(
      tracks, {}, [&](uint32_t track) { return std::pair(trace.tracks[track].rank, trace.tracks[track].role); });
  const bool ranks = has_ranks(trace);
  model.row_of_event.resize(trace.events.size());
  for (const uint32_t track : tracks) {
    if (rows[track].empty()) continue;
    const int32_t rank = ranks ? trace.tracks[track].rank : -1;
    const std::string whose = ranks ? "rank " + std::to_string(rank) + ": " : "";
    model.lanes.push_back(
        {whose + display_name(trace.tracks[track]), track, model.rows.size(), rows[track].size(), rank});
    for (SpanRow& row : rows[track]) {
      for (const uint32_t index : row.events) model.row_of_event[index] = static_cast<uint32_t>(model.rows.size());
      model.rows.push_back(std::move(row));
    }
  }
}

// Chooses the lane of each rank that stays visible while the rank is folded.
void choose_staying(const Trace& trace, std::vector<Lane>& lanes) {
  const auto computes = [&](const Lane& lane) { return trace.tracks[lane.track].role == trace::TrackRole::compute; };
  for (auto first = lanes.begin(); first != lanes.end();) {
    const auto end = std::find_if(first, lanes.end(), [&](const Lane& lane) { return lane.rank != first->rank; });
    const auto compute = std::find_if(first, end, computes);
    const auto staying = compute != end ? compute : first;
    if (first->rank >= 0)
      for (auto lane = first; lane != end; ++lane) lane->stays = lane == staying;
    first = end;
  }
}

void index_values(const Trace& trace, const std::vector<uint32_t>& order, TimelineModel& model) {
  model.value_first.assign(trace.values.size() + 1, 0);
  for (const TraceEvent& event : trace.events) {
    if (event.value) ++model.value_first[event.value.index() + 1];
  }
  std::partial_sum(model.value_first.begin(), model.value_first.end(), model.value_first.begin());
  model.value_events.resize(model.value_first.back());
  std::vector<uint32_t> next(model.value_first.begin(), model.value_first.end() - 1);
  for (const uint32_t index : order) {
    if (const trace::ValueId value = trace.events[index].value) model.value_events[next[value.index()]++] = index;
  }
}

trace::TimeInterval whole_of(const Trace& trace, const std::vector<uint32_t>& order) {
  trace::TimeInterval whole{INT64_MAX, INT64_MIN};
  const auto add = [&](int64_t start, int64_t end) {
    whole = {std::min(whole.start, start), std::max(whole.end, end)};
  };
  if (!order.empty()) add(trace.events[order.front()].start_ns, trace.events[order.front()].start_ns);
  for (const TraceEvent& event : trace.events) whole.end = std::max(whole.end, end_of(event));
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
  choose_staying(trace, model.lanes);
  model.measured_rank = trace.measured_rank;
  index_values(trace, order, model);
  model.memory = make_memory(trace);
  return model;
}

std::set<int32_t> ranks_of(const TimelineModel& model) {
  std::set<int32_t> ranks;
  for (const Lane& lane : model.lanes)
    if (lane.rank >= 0) ranks.insert(lane.rank);
  return ranks;
}

std::set<int32_t> folded_at_first(const TimelineModel& model) {
  std::set<int32_t> ranks = ranks_of(model);
  if (ranks.size() <= 2) return {};
  if (ranks.erase(model.measured_rank) == 0) ranks.erase(ranks.begin());
  return ranks;
}

}  // namespace memtune::gui
