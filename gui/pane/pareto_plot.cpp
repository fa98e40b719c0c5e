#include "gui/pane/pareto_plot.h"

#include <implot.h>

#include <algorithm>
#include <cmath>

#include "core/answer/report/chart/label_placer.h"
#include "core/base/layout.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr float kReach = 10, kMarker = 4.5F;  // pixels at scale 1

ImVec2 pixels(const ParetoDot& point) { return ImPlot::PlotToPixels(point.peak, point.time); }

void draw_fronts(const Scatter& scatter) {
  for (size_t i = 0; i < scatter.fronts.size(); ++i) {
    const Front& front = scatter.fronts[i];
    std::vector<double> x, y;
    for (const ParetoDot& point : front.points) {
      x.push_back(point.peak);
      y.push_back(point.time);
    }
    if (x.size() < 2) continue;
    ImPlotSpec spec;
    spec.LineColor = unpacked(with_alpha(front.run == 0 ? palette().accent : series_color(front.run), 0.6F));
    spec.LineWeight = px(1.5F);
    ImPlot::PlotLine(("front " + std::to_string(i)).c_str(), x.data(), y.data(), static_cast<int>(x.size()), spec);
  }
}

// Dotted, to distinguish simulated plans from trials, with a small diamond per plan.
void draw_frontiers(const Scatter& scatter) {
  constexpr float kGap = 5, kDot = 0.8F;
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  for (const Front& frontier : scatter.frontiers) {
    const ImU32 color = with_alpha(frontier.run == 0 ? palette().faint_text : series_color(frontier.run), 0.9F);
    for (size_t i = 0; i < frontier.points.size(); ++i) {
      const ImVec2 to = pixels(frontier.points[i]);
      list.AddNgonFilled(to, px(0.6F * kMarker), color, 4);
      if (i == 0) continue;
      const ImVec2 from = pixels(frontier.points[i - 1]);
      const int dots = static_cast<int>(std::hypot(to.x - from.x, to.y - from.y) / px(kGap));
      for (int dot = 1; dot < dots; ++dot) {
        const float share = static_cast<float>(dot) / static_cast<float>(dots);
        list.AddCircleFilled({from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share}, px(kDot), color);
      }
    }
  }
  ImPlot::PopPlotClipRect();
}

ImU32 point_color(const ParetoDot& point) {
  if (point.recommended) return palette().good;
  return point.pareto ? palette().accent : palette().faint_text;
}

// 1, 1.5, 2, 3, 5 and 7 times powers of ten. On a logarithmic axis a range below one decade would have no other ticks.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
    for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
      if (decade * step >= low && decade * step <= high) ticks.push_back(decade * step);
    }
  }
  return ticks;
}

// Leaves room around the points, so that no marker is cut. If times are far apart (an offload that waits for PCIe), the
// axis is logarithmic, to keep the other points apart.
void set_up_axes(const Scatter& scatter) {
  std::vector<ParetoDot> shown = scatter.points;
  for (const Front& frontier : scatter.frontiers)
    shown.insert(shown.end(), frontier.points.begin(), frontier.points.end());
  const auto [least, most] = std::ranges::minmax(shown, {}, &ParetoDot::peak);
  const auto [fastest, slowest] = std::ranges::minmax(shown, {}, &ParetoDot::time);
  const double x = std::max(0.08 * (most.peak - least.peak), 0.02 * most.peak);
  double low = fastest.time - std::max(0.1 * (slowest.time - fastest.time), 0.02 * fastest.time);
  double high = slowest.time + std::max(0.1 * (slowest.time - fastest.time), 0.02 * fastest.time);
  const bool logarithmic = slowest.time > 2.5 * fastest.time;
  ImPlot::SetupAxes((std::string("peak ") + scatter.unit.name).c_str(),
                    (scatter.time_label + (logarithmic ? ", logarithmic" : "")).c_str());
  if (logarithmic) {
    low = fastest.time / 1.15;
    high = slowest.time * 1.15;
    const std::vector<double> ticks = log_ticks(low, high);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    ImPlot::SetupAxisFormat(ImAxis_Y1, "%g");
    ImPlot::SetupAxisTicks(ImAxis_Y1, ticks.data(), static_cast<int>(ticks.size()));
  }
  double left = least.peak, right = most.peak;
  for (const double budget : scatter.budgets) left = std::min(left, budget), right = std::max(right, budget);
  ImPlot::SetupAxesLimits(left - x, right + x, low, high);
}

void draw_budgets(const Scatter& scatter) {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const ImVec2 corner = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
  const float dash = px(7), bottom = corner.y + extent.y;
  ImPlot::PushPlotClipRect();
  for (const double budget : scatter.budgets) {
    const float x = std::round(ImPlot::PlotToPixels(budget, scatter.points.front().time).x);
    for (float y = corner.y; y < bottom; y += 2 * dash)
      list.AddLine({x, y}, {x, std::min(y + dash, bottom)}, palette().budget, px(1.5F));
    const ImVec2 size = ImGui::CalcTextSize("budget");
    const bool fits = x + px(5) + size.x < corner.x + extent.x;
    list.AddText({fits ? x + px(5) : x - px(5) - size.x, bottom - size.y - px(4)}, palette().budget, "budget");
  }
  ImPlot::PopPlotClipRect();
}

// Hollow, with a line to the measured point.
void draw_predicted(ImDrawList& list, const ParetoDot& point) {
  const ImVec2 told = ImPlot::PlotToPixels(point.predicted_peak, point.predicted_time);
  list.AddLine(told, pixels(point), with_alpha(palette().faint_text, 0.6F));
  list.AddCircle(told, px(kMarker), palette().faint_text, 0, px(1.2F));
}

void draw_points(AppState& state, const Scatter& scatter) {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  for (const ParetoDot& point : scatter.points)
    if (point.predicted_time > 0) draw_predicted(list, point);
  for (const ParetoDot& point : scatter.points) {
    const ImVec2 at = pixels(point);
    if (point.planned)
      list.AddNgonFilled(at, px(1.25F * kMarker), point_color(point), 4);  // a diamond
    else
      list.AddCircleFilled(at, px(kMarker), point_color(point));
    state.compare.points[point.trial] = {at.x, at.y};
    if (point.trial == state.trial) list.AddCircle(at, px(kMarker + 3), series_color(0), 0, px(2));
    if (state.other_trial == point.trial) list.AddCircle(at, px(kMarker + 3), series_color(1), 0, px(2));
  }
  ImPlot::PopPlotClipRect();
}

// Pixels per unit, so that labels are as high as in a report's charts.
float label_unit() { return ImGui::GetFontSize() / 13; }

// The fronts as drawn, cut into pieces that labels avoid.
std::vector<std::vector<report::Point>> front_lines(const Scatter& scatter) {
  constexpr int kPieces = 24;
  std::vector<std::vector<report::Point>> lines;
  for (const Front& front : scatter.fronts) {
    std::vector<report::Point> line;
    for (size_t i = 1; i < front.points.size(); ++i) {
      const ImVec2 from = pixels(front.points[i - 1]), to = pixels(front.points[i]);
      for (int piece = 0; piece <= kPieces; ++piece) {
        const float share = static_cast<float>(piece) / kPieces;
        line.push_back(
            {(from.x + (to.x - from.x) * share) / label_unit(), (from.y + (to.y - from.y) * share) / label_unit()});
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// Labels of the front come first. A label without room near its point is placed apart, with a line to the point.
void draw_labels(AppState& state, const Scatter& scatter) {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const float unit = label_unit();
  const ImVec2 corner = ImPlot::GetPlotPos(), extent = ImPlot::GetPlotSize();
  std::vector<report::Point> points;
  for (const ParetoDot& point : scatter.points) points.push_back({pixels(point).x / unit, pixels(point).y / unit});
  report::LabelPlacer places(
      {corner.x / unit, corner.y / unit, (corner.x + extent.x) / unit, (corner.y + extent.y) / unit}, points,
      front_lines(scatter));
  for (const bool front : {true, false}) {
    for (size_t i = 0; i < points.size(); ++i) {
      const ParetoDot& point = scatter.points[i];
      if ((point.pareto || point.recommended) != front) continue;
      const std::string& text = state.run.trials[point.trial].label();
      const auto place = places.take(points[i], ImGui::CalcTextSize(text.c_str()).x / unit);
      state.compare.labelled[point.trial] = place.has_value();
      if (!place) continue;
      const auto left = static_cast<float>(place->box.left) * unit, right = static_cast<float>(place->box.right) * unit;
      const float middle = static_cast<float>(place->box.top + place->box.bottom) / 2 * unit;
      const ImVec2 at = pixels(point), end(left > at.x ? left - px(2) : right + px(2), middle);
      if (place->needs_leader_line) list.AddLine(at, end, with_alpha(palette().faint_text, 0.6F));
      list.AddText({left, middle - ImGui::GetFontSize() / 2}, front ? palette().text : palette().faint_text,
                   text.c_str());
    }
  }
}

// The points under the mouse, the nearest first: points may overlap.
std::vector<const ParetoDot*> under_mouse(const Scatter& scatter) {
  const ImVec2 mouse = ImGui::GetMousePos();
  const auto distance = [&](const ParetoDot* point) {
    return std::hypot(pixels(*point).x - mouse.x, pixels(*point).y - mouse.y);
  };
  std::vector<const ParetoDot*> found;
  for (const ParetoDot& point : scatter.points)
    if (distance(&point) <= px(kReach)) found.push_back(&point);
  std::ranges::stable_sort(found, {}, distance);
  return found;
}

void draw_tip(const AppState& state, const Scatter& scatter, const std::vector<const ParetoDot*>& points) {
  ImGui::BeginTooltip();
  const auto figures = [&](double peak, double time) {
    return fixed(peak, 2) + " " + scatter.unit.name + " at the peak, " + fixed(time, scatter.time_digits) + " " +
           scatter.time_unit;
  };
  for (const ParetoDot* point : points) {
    ImGui::Text("%s\n%s", state.run.trials[point->trial].label().c_str(), figures(point->peak, point->time).c_str());
    if (point->predicted_time > 0)
      ImGui::TextDisabled("predicted %s", figures(point->predicted_peak, point->predicted_time).c_str());
  }
  ImGui::EndTooltip();
}

}  // namespace

void draw_pareto(AppState& state) {
  const Scatter scatter = make_scatter(state.run);
  if (scatter.points.empty()) return ImGui::TextDisabled("no trial has both a step time and a peak");
  const std::string id = "##pareto " + std::to_string(scatter.points.size());  // new points reset the axes' limits
  if (!ImPlot::BeginPlot(id.c_str(), {-1, -1}, ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText | ImPlotFlags_NoTitle))
    return;
  set_up_axes(scatter);
  draw_budgets(scatter);
  draw_frontiers(scatter);
  draw_fronts(scatter);
  state.compare.points.assign(state.run.trials.size(), {});
  state.compare.labelled.assign(state.run.trials.size(), false);
  draw_points(state, scatter);
  draw_labels(state, scatter);
  const std::vector<const ParetoDot*> hovered =
      ImPlot::IsPlotHovered() ? under_mouse(scatter) : std::vector<const ParetoDot*>();
  if (!hovered.empty()) draw_tip(state, scatter, hovered);
  if (!hovered.empty() && clicked()) {
    select_trial(state, hovered.front()->trial);
    state.tab = Tab::timeline;
  }
  ImPlot::EndPlot();
}

}  // namespace memtune::gui
