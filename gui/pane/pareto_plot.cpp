#include "gui/pane/pareto_plot.h"

#include <implot.h>

#include <algorithm>
#include <cmath>

#include "core/base/layout.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr float kReach = 10, kMarker = 4.5F;  // pixels at scale 1

struct Box {
  ImVec2 low, high;
  bool meets(const Box& other) const {
    return low.x < other.high.x && other.low.x < high.x && low.y < other.high.y && other.low.y < high.y;
  }
};

ImVec4 color(ImU32 packed) { return ImGui::ColorConvertU32ToFloat4(packed); }

ImVec2 pixels(const ParetoDot& point) { return ImPlot::PlotToPixels(point.peak_gib, point.time); }

void draw_fronts(const Scatter& scatter) {
  for (size_t i = 0; i < scatter.fronts.size(); ++i) {
    const Front& front = scatter.fronts[i];
    std::vector<double> x, y;
    for (const ParetoDot& point : front.points) {
      x.push_back(point.peak_gib);
      y.push_back(point.time);
    }
    if (x.size() < 2) continue;
    ImPlotSpec spec;
    spec.LineColor = color(with_alpha(front.run == 0 ? palette().accent : series_color(front.run), 0.6F));
    spec.LineWeight = px(1.5F);
    ImPlot::PlotLine(("front " + std::to_string(i)).c_str(), x.data(), y.data(), static_cast<int>(x.size()), spec);
  }
}

ImU32 point_color(const ParetoDot& point) {
  if (point.recommended) return palette().good;
  return point.pareto ? palette().accent : palette().faint_text;
}

// 1, 1.5, 2, 3, 5 and 7 times powers of ten: a range of less than a decade has no other ticks on a logarithmic axis.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
    for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
      if (decade * step >= low && decade * step <= high) ticks.push_back(decade * step);
    }
  }
  return ticks;
}

// With room around the points, so that no marker is cut. Times far apart (of an offload that waits for the link) are on
// a logarithmic axis: they would press all others together.
void set_up_axes(const Scatter& scatter) {
  const auto [least, most] = std::ranges::minmax(scatter.points, {}, &ParetoDot::peak_gib);
  const auto [fastest, slowest] = std::ranges::minmax(scatter.points, {}, &ParetoDot::time);
  const double x = std::max(0.08 * (most.peak_gib - least.peak_gib), 0.02 * most.peak_gib);
  double low = fastest.time - std::max(0.1 * (slowest.time - fastest.time), 0.02 * fastest.time);
  double high = slowest.time + std::max(0.1 * (slowest.time - fastest.time), 0.02 * fastest.time);
  ImPlot::SetupAxes("peak GiB", scatter.time_label.c_str());
  if (slowest.time > 2.5 * fastest.time) {
    low = fastest.time / 1.15;
    high = slowest.time * 1.15;
    const std::vector<double> ticks = log_ticks(low, high);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    ImPlot::SetupAxisFormat(ImAxis_Y1, "%g");
    ImPlot::SetupAxisTicks(ImAxis_Y1, ticks.data(), static_cast<int>(ticks.size()));
  }
  ImPlot::SetupAxesLimits(least.peak_gib - x, most.peak_gib + x, low, high);
}

void draw_points(AppState& state, const Scatter& scatter) {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  for (const ParetoDot& point : scatter.points) {
    const ImVec2 at = pixels(point);
    list.AddCircleFilled(at, px(kMarker), point_color(point));
    state.compare.points[point.trial] = {at.x, at.y};
    if (point.trial == state.trial) list.AddCircle(at, px(kMarker + 3), series_color(0), 0, px(2));
    if (state.other_trial == point.trial) list.AddCircle(at, px(kMarker + 3), series_color(1), 0, px(2));
  }
  ImPlot::PopPlotClipRect();
}

// Those of the front first; one that would lie on another or on a point is left out: hovering tells it.
void draw_labels(const AppState& state, const Scatter& scatter) {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  std::vector<Box> taken;
  const float reach = px(kMarker + 2);
  for (const ParetoDot& point : scatter.points) {
    const ImVec2 at = pixels(point);
    taken.push_back({{at.x - reach, at.y - reach}, {at.x + reach, at.y + reach}});
  }
  const ImVec2 corner = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
  for (const bool front : {true, false}) {
    for (const ParetoDot& point : scatter.points) {
      if ((point.pareto || point.recommended) != front) continue;
      const std::string& text = state.run.trials[point.trial].label();
      const ImVec2 at = pixels(point), size = ImGui::CalcTextSize(text.c_str());
      for (const ImVec2 place : {ImVec2(at.x + px(9), at.y - size.y - px(2)), ImVec2(at.x + px(9), at.y + px(1)),
                                 ImVec2(at.x - px(9) - size.x, at.y - size.y - px(2))}) {
        const Box box{place, {place.x + size.x, place.y + size.y}};
        if (box.low.x < corner.x || box.high.x > corner.x + extent.x || box.low.y < corner.y ||
            box.high.y > corner.y + extent.y || std::ranges::any_of(taken, [&](const Box& b) { return b.meets(box); }))
          continue;
        list.AddText(place, front ? palette().text : palette().faint_text, text.c_str());
        taken.push_back(box);
        break;
      }
    }
  }
}

const ParetoDot* nearest(const Scatter& scatter) {
  const ImVec2 mouse = ImGui::GetMousePos();
  const ParetoDot* best = nullptr;
  float least = px(kReach);
  for (const ParetoDot& point : scatter.points) {
    const ImVec2 at = pixels(point);
    const float distance = std::hypot(at.x - mouse.x, at.y - mouse.y);
    if (distance > least) continue;
    least = distance;
    best = &point;
  }
  return best;
}

void draw_tip(const AppState& state, const Scatter& scatter, const ParetoDot& point) {
  ImGui::SetTooltip("%s\n%s GiB at the peak, %s %s", state.run.trials[point.trial].label().c_str(),
                    fixed(point.peak_gib, 2).c_str(), fixed(point.time, scatter.time_digits).c_str(),
                    scatter.time_unit.c_str());
}

}  // namespace

void draw_pareto(AppState& state) {
  const Scatter scatter = make_scatter(state.run);
  if (scatter.points.empty()) return ImGui::TextDisabled("no trial has both a step time and a peak");
  const std::string id = "##pareto " + std::to_string(scatter.points.size());  // other points, other limits
  if (!ImPlot::BeginPlot(id.c_str(), {-1, -1}, ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText | ImPlotFlags_NoTitle))
    return;
  set_up_axes(scatter);
  draw_fronts(scatter);
  state.compare.points.assign(state.run.trials.size(), {});
  draw_points(state, scatter);
  draw_labels(state, scatter);
  const ParetoDot* hovered = ImPlot::IsPlotHovered() ? nearest(scatter) : nullptr;
  if (hovered) draw_tip(state, scatter, *hovered);
  if (hovered && clicked()) {
    select_trial(state, hovered->trial);
    state.tab = Tab::timeline;
  }
  ImPlot::EndPlot();
}

}  // namespace memtune::gui
