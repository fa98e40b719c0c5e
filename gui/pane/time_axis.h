// Converts times to pixels and back, the same for all layers of a timeline, and draws the ruler.
#pragma once

#include <imgui.h>

#include <vector>

#include "gui/model/view_state.h"

namespace memtune::gui {

struct TimeAxis {
  double start_ns = 0, end_ns = 1;
  float left = 0, right = 1;  // pixels

  double ns_per_pixel() const { return (end_ns - start_ns) / static_cast<double>(right - left); }
  // Clamped slightly outside the edges, because floats lose precision for distant pixels.
  float x(double time_ns) const;
  double time(float x) const { return start_ns + static_cast<double>(x - left) * ns_per_pixel(); }
};

// The smallest 1, 2 or 5 times a power of ten that is at least `least`.
double round_step(double least);

// Draws ticks from `top` to `ruler_bottom` and grid lines from there to `bottom`.
void draw_ruler(ImDrawList& list, const TimeAxis& axis, float top, float ruler_bottom, float bottom);

}  // namespace memtune::gui
