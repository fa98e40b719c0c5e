// Level of detail: the rectangles to draw for a row at a given zoom. Spans narrower than a pixel are merged into one
// bar with a count. They are found by bisection, so the cost depends on the screen's width, not on the number of spans.
#pragma once

#include <cstdint>
#include <vector>

#include "gui/model/timeline_model.h"

namespace memtune::gui {

struct Bar {
  int64_t start_ns = 0, end_ns = 0;
  size_t first = 0, count = 1;  // index in the row and number of spans
  double busy = 1;              // share of the bar's time covered by its spans
};

// The bars that overlap [start, end), in order of time.
std::vector<Bar> visible_bars(const SpanRow& row, double start_ns, double end_ns, double ns_per_pixel);

}  // namespace memtune::gui
