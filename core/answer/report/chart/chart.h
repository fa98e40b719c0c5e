// Parts that all charts share: frame with ticks and grid, legend.
#pragma once

#include <string>
#include <vector>

#include "core/answer/report/chart/svg_writer.h"

namespace memtune::report {

inline constexpr int kChartWidth = 640;

struct PlotAreaRect {
  double left = 64, top = 28, right = kChartWidth - 16, bottom = 300;
};

struct LegendEntry {
  std::string style, text;
};

// Draws grid lines at the ticks, numbers outside the frame and the title at the end of the axis.
void put_x_axis(SvgWriter& svg, const PlotAreaRect& frame, const AxisScale& scale, const std::string& title);
void put_y_axis(SvgWriter& svg, const PlotAreaRect& frame, const AxisScale& scale, const std::string& title);

// Draws the legend from `at` on, wrapped at `right`. Returns the y of its last line.
double put_legend(SvgWriter& svg, Point at, double right, const std::vector<LegendEntry>& entries);

}  // namespace memtune::report
