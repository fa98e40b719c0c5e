#include "core/answer/report/chart/chart.h"

#include <algorithm>

namespace memtune::report {

void put_x_axis(SvgWriter& svg, const PlotAreaRect& frame, const AxisScale& scale, const std::string& title) {
  constexpr double kTick = 34;  // room for a number and a gap
  const AxisTicks ticks =
      round_ticks(scale.low, scale.high, std::clamp(static_cast<int>((frame.right - frame.left) / kTick), 3, 9));
  for (double value : ticks.values) {
    svg.line({scale(value), frame.top}, {scale(value), frame.bottom}, "grid");
    svg.text({scale(value), frame.bottom + 16}, ticks.text(value), TextAnchor::middle, "tick");
  }
  svg.line({frame.left, frame.bottom}, {frame.right, frame.bottom}, "axis");
  svg.text({frame.right, frame.bottom + 34}, title, TextAnchor::end, "name");
}

void put_y_axis(SvgWriter& svg, const PlotAreaRect& frame, const AxisScale& scale, const std::string& title) {
  const AxisTicks ticks = round_ticks(scale.low, scale.high, 7);
  for (double value : ticks.values) {
    svg.line({frame.left, scale(value)}, {frame.right, scale(value)}, "grid");
    svg.text({frame.left - 8, scale(value) + 4}, ticks.text(value), TextAnchor::end, "tick");
  }
  svg.line({frame.left, frame.top}, {frame.left, frame.bottom}, "axis");
  svg.text({8, frame.top - 12}, title, TextAnchor::start, "name");
}

double put_legend(SvgWriter& svg, Point at, double right, const std::vector<LegendEntry>& entries) {
  constexpr double kSquare = 11, kGap = 18, kLine = 18;
  Point next = at;
  for (const LegendEntry& entry : entries) {
    const double width = kSquare + 6 + text_width(entry.text);
    if (next.x > at.x && next.x + width > right) next = {at.x, next.y + kLine};
    svg.bar({next.x, next.y - kSquare + 2}, kSquare, kSquare, entry.style);
    svg.text({next.x + kSquare + 6, next.y}, entry.text);
    next.x += width + kGap;
  }
  return next.y;
}

}  // namespace memtune::report
