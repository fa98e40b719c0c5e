// Draws the lanes: rows of spans, the highlighted lifetime, search hits, marks.
#pragma once

#include <imgui.h>

#include <optional>
#include <vector>

#include "gui/model/bars.h"
#include "gui/model/run.h"
#include "gui/model/search.h"
#include "gui/model/value_lifetime.h"
#include "gui/pane/time_axis.h"

namespace memtune::gui {

// The bar under the mouse.
struct Hovered {
  size_t row = 0;
  Bar bar;         // count 1: a single event
  uint32_t event;  // index into Trace::events: the bar's first
};

struct LaneFrame {
  ImDrawList* list = nullptr;
  TimeAxis axis;
  float left = 0, top = 0, bottom = 0;   // pixels; names begin at `left`, spans at axis.left
  float ruler_top = 0;                   // of the ruler above the lanes
  std::vector<float> row_y, row_height;  // of TimelineModel::rows
  std::vector<float> lane_y;             // one more than there are lanes
  ImVec2 mouse{-1, -1};                  // (-1, -1) if it is elsewhere
  std::set<int32_t> folded;              // ranks; their hidden rows have height 0

  bool over_time(ImVec2 point) const {
    return point.x >= axis.left && point.x < axis.right && point.y >= ruler_top && point.y < bottom;
  }
};

// Width of the lanes' names in pixels.
float names_width(const TimelineModel& model);
// Computes height and position of all rows from `frame.top` on.
void lay_out_lanes(const LoadedTrace& loaded, LaneFrame& frame);
float lanes_height(const TimelineModel& model, const std::set<int32_t>& folded);
// The rank whose name is under the mouse, if there are several ranks.
std::optional<int32_t> rank_named(const LoadedTrace& loaded, const LaneFrame& frame);

// Highlights the events of the lifetime `lit` and fades all others, unless it is empty.
std::optional<Hovered> draw_lanes(const LoadedTrace& loaded, const LaneFrame& frame, const ValueLifetime& lit);
void draw_lifetime(const LoadedTrace& loaded, const LaneFrame& frame, const ValueLifetime& lifetime);
void draw_hits(const LoadedTrace& loaded, const LaneFrame& frame, const Search& search);
void outline_event(const LoadedTrace& loaded, const LaneFrame& frame, uint32_t event);

ImU32 event_color(const trace::TraceEvent& event);

}  // namespace memtune::gui
