// What the timeline draws of a trace, sorted once when it is opened so that a frame costs what is visible and not what
// there is: lanes of rows, each a list of spans that do not overlap; the memory curve; the events of each value.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/interval.h"
#include "gui/model/memory_model.h"

namespace memtune::gui {

// Spans in order of time; the arrays have one element a span, `busy_before` one more.
struct SpanRow {
  std::vector<uint32_t> events;  // index into Trace::events
  std::vector<int64_t> starts_ns, ends_ns;
  std::vector<int64_t> busy_before_ns;  // total length of the spans before this one
};

struct Lane {
  std::string name;  // for people: "copies out (20)"
  uint32_t track = 0;
  size_t first_row = 0,
         rows = 0;    // in TimelineModel::rows; the second row holds what lies inside the first's, and so on
  int32_t rank = -1;  // whose it is, where ranks trained together
  bool stays = true;  // also while its rank is folded: the first of compute, or of all where nothing computed
};

struct TimelineModel {
  trace::Interval whole{0, 1};
  std::vector<Lane> lanes;  // from the top: steps, blocks, compute, copies, disk, values, the host; rank by rank
  std::vector<SpanRow> rows;
  std::vector<uint32_t> row_of_event;  // index into rows
  int32_t measured_rank = -1;          // Trace::measured_rank
  MemoryModel memory;

  // Events of each value in order of time: of the v-th those from value_first[v] to value_first[v + 1].
  std::vector<uint32_t> value_events, value_first;
};
TimelineModel make_timeline(const trace::Trace& trace);

// Ranks whose lanes are folded until a person asks for them: of more than two all but the one that the trace's figures
// are of, or the first.
std::set<int32_t> folded_at_first(const TimelineModel& model);
std::set<int32_t> ranks_of(const TimelineModel& model);
inline bool shown(const Lane& lane, const std::set<int32_t>& folded) {
  return lane.stays || !folded.contains(lane.rank);
}

}  // namespace memtune::gui
