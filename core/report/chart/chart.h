// What every chart has: a frame with ticks and grid, a legend.
#pragma once

#include <string>
#include <vector>

#include "core/report/chart/svg.h"

namespace memtune::report {

inline constexpr int kChartWidth = 640;

struct Frame {
  double left = 64, top = 28, right = kChartWidth - 16, bottom = 300;
};

struct LegendEntry {
  std::string style, text;
};

// Grid lines at the ticks, their numbers outside of the frame, the axis' title at its end.
void put_x_axis(Svg& svg, const Frame& frame, const Scale& scale, const std::string& title);
void put_y_axis(Svg& svg, const Frame& frame, const Scale& scale, const std::string& title);

// Squares with words from `at` on, broken at `right`; the y of its last line.
double put_legend(Svg& svg, Point at, double right, const std::vector<LegendEntry>& entries);

}  // namespace memtune::report
