// From times to pixels and back, the same for all that is drawn over each other; and the ruler.
#pragma once

#include <imgui.h>

#include <vector>

#include "gui/model/view_state.h"

namespace memtune::gui {

struct TimeAxis {
  double start_ns = 0, end_ns = 1;
  float left = 0, right = 1;  // pixels

  double ns_per_pixel() const { return (end_ns - start_ns) / static_cast<double>(right - left); }
  // Clamped a little beyond the edges: floats of far away pixels have no digits left.
  float x(double time_ns) const;
  double time(float x) const { return start_ns + static_cast<double>(x - left) * ns_per_pixel(); }
};

// 1, 2 or 5 times a power of ten, not less than `least`.
double round_step(double least);

// Ticks from `top` to `ruler_bottom`, grid lines from there to `bottom`.
void draw_ruler(ImDrawList& list, const TimeAxis& axis, float top, float ruler_bottom, float bottom);

}  // namespace memtune::gui
