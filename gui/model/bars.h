// Level of detail: what of a row is worth a rectangle at a magnification. Spans narrower than a pixel become one bar
// with a count, found by bisection, so a million spans cost as much as fit on the screen.
#pragma once

#include <cstdint>
#include <vector>

#include "gui/model/timeline_model.h"

namespace memtune::gui {

struct Bar {
  int64_t start_ns = 0, end_ns = 0;
  size_t first = 0, count = 1;  // spans of the row
  double busy = 1;              // share of the bar's time that its spans fill
};

// In order of time, those that overlap [start, end).
std::vector<Bar> visible_bars(const SpanRow& row, double start_ns, double end_ns, double ns_per_pixel);

}  // namespace memtune::gui
