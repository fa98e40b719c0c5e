// The lanes: rows of spans, the lit trip over them, search hits, marks.
#pragma once

#include <imgui.h>

#include <optional>
#include <vector>

#include "gui/model/bars.h"
#include "gui/model/run.h"
#include "gui/model/search.h"
#include "gui/model/trip.h"
#include "gui/pane/time_axis.h"

namespace memtune::gui {

// What lies under the mouse.
struct Hovered {
  size_t row = 0;
  Bar bar;         // count 1: the event
  uint32_t event;  // index into Trace::events: the bar's first
};

struct LaneFrame {
  ImDrawList* list = nullptr;
  TimeAxis axis;
  float left = 0, top = 0, bottom = 0;   // pixels; names begin at `left`, spans at axis.left
  float ruler_top = 0;                   // of the ruler above the lanes
  std::vector<float> row_y, row_height;  // of TimelineModel::rows
  std::vector<float> lane_y;             // one more than there are lanes
  ImVec2 mouse{-1, -1};                  // beside everything when it is elsewhere
  std::set<int32_t> folded;              // ranks; a row of theirs that is not shown has no height

  bool over_time(ImVec2 point) const {
    return point.x >= axis.left && point.x < axis.right && point.y >= ruler_top && point.y < bottom;
  }
};

// Pixels that the lanes' names take, all of one width.
float names_width(const TimelineModel& model);
// Heights and places of all rows from `frame.top` on.
void lay_out_lanes(const LoadedTrace& loaded, LaneFrame& frame);
float lanes_height(const TimelineModel& model, const std::set<int32_t>& folded);
// Whose name is under the mouse, where ranks trained together.
std::optional<int32_t> rank_named(const LoadedTrace& loaded, const LaneFrame& frame);

// `lit`: the trip whose events stand out; all others fade when it is not empty.
std::optional<Hovered> draw_lanes(const LoadedTrace& loaded, const LaneFrame& frame, const Trip& lit);
void draw_trip(const LoadedTrace& loaded, const LaneFrame& frame, const Trip& trip);
void draw_hits(const LoadedTrace& loaded, const LaneFrame& frame, const Search& search);
void outline_event(const LoadedTrace& loaded, const LaneFrame& frame, uint32_t event);

ImU32 event_color(const trace::Event& event);

}  // namespace memtune::gui
