#include "gui/pane/time_axis.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gui/model/format.h"
#include "gui/pane/theme.h"

namespace memtune::gui {
namespace {

constexpr int kMaxTicks = 1000;  // a limit, because adding a step to a large double may not change it

}  // namespace

float TimeAxis::x(double time_ns) const {
  constexpr double kBeyond = 64;
  const double offset = (time_ns - start_ns) / ns_per_pixel();
  return left + static_cast<float>(std::clamp(offset, -kBeyond, static_cast<double>(right - left) + kBeyond));
}

double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(std::max(least, 1e-9))));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= least) return step * power;
  }
  return 10 * power;
}

void draw_ruler(ImDrawList& list, const TimeAxis& axis, float top, float ruler_bottom, float bottom) {
  const double step = round_step(axis.ns_per_pixel() * static_cast<double>(px(110)));
  const double first = std::ceil(axis.start_ns / step) * step;
  for (int i = 0; i < kMaxTicks; ++i) {
    const double tick = first + i * step;
    if (tick >= axis.end_ns) break;
    const float x = std::round(axis.x(tick));
    list.AddLine({x, ruler_bottom - px(5)}, {x, ruler_bottom}, palette().faint_text);
    list.AddLine({x, ruler_bottom}, {x, bottom}, palette().grid);
    const std::string text = tick == 0 ? "0" : format_time(tick, step);
    list.AddText({x + px(3), top}, palette().faint_text, text.c_str());
  }
}

}  // namespace memtune::gui
