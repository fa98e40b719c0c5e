// The data that the timeline draws, sorted once when a trace is opened. A frame then costs what is visible, not the
// whole trace. It has lanes of rows of spans that do not overlap, the memory curve and the events of each tensor.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/record/trace/time_interval.h"
#include "core/record/trace/trace_event.h"
#include "gui/model/memory_model.h"

namespace memtune::gui {

// Spans in order of time. The arrays have one element per span, `busy_before_ns` has one more.
struct SpanRow {
  std::vector<uint32_t> events;  // index into Trace::events
  std::vector<int64_t> starts_ns, ends_ns;
  std::vector<int64_t> busy_before_ns;  // total length of all earlier spans
};

struct Lane {
  std::string name;  // display name: "copies out (20)"
  uint32_t track = 0;
  size_t first_row = 0,
         rows = 0;    // in TimelineModel::rows; nested spans are in the following rows
  int32_t rank = -1;  // its rank; -1: training ran as one process
  bool stays = true;  // visible while its rank is folded: the rank's compute lane, otherwise its first
};

struct TimelineModel {
  trace::TimeInterval whole{0, 1};
  std::vector<Lane> lanes;  // from the top: steps, blocks, compute, copies, disk, tensors, host; rank by rank
  std::vector<SpanRow> rows;
  std::vector<uint32_t> row_of_event;  // index into rows
  int32_t measured_rank = -1;          // Trace::measured_rank
  MemoryModel memory;

  // Events of each tensor in order of time: tensor v has those from value_first[v] to value_first[v + 1].
  std::vector<uint32_t> value_events, value_first;
};
TimelineModel make_timeline(const trace::Trace& trace);

// Ranks whose lanes are folded initially: with more than two ranks, all but the measured one, or the first.
std::set<int32_t> folded_at_first(const TimelineModel& model);
std::set<int32_t> ranks_of(const TimelineModel& model);
inline bool shown(const Lane& lane, const std::set<int32_t>& folded) {
  return lane.stays || !folded.contains(lane.rank);
}

}  // namespace memtune::gui
