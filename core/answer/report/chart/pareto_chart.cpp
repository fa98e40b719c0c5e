#include "core/answer/report/chart/pareto_chart.h"

#include <algorithm>
#include <cmath>

#include "core/answer/report/chart/chart.h"
#include "core/answer/report/chart/label_placer.h"
#include "core/answer/report/words.h"
#include "core/answer/result/pareto.h"
#include "core/base/layout.h"

namespace memtune::report {
namespace {

using result::ParetoPlot;
using result::ParetoPlotPoint;

class ParetoChart {
 public:
  explicit ParetoChart(const ParetoPlot& plot)
      : plot_(plot), svg_(kChartWidth, kHeight, "Time against peak memory of every trial") {
    frame_.bottom = kHeight - 48;
    x_ = {plot.least_peak, plot.most_peak, frame_.left, frame_.right};
    y_ = {plot.least_time, plot.most_time, frame_.bottom, frame_.top};
  }

  std::string draw() {
    put_x_axis(svg_, frame_, x_, std::string("peak ") + plot_.unit.name);
    put_y_axis(svg_, frame_, y_, plot_.time_name);
    put_budget();
    for (const auto& frontier : plot_.frontiers) put_frontier(frontier);
    for (const auto& front : plot_.fronts) put_front(front);
    for (const ParetoPlotPoint& point : plot_.points) put_predicted(point);
    for (const ParetoPlotPoint& point : plot_.points) put_point(point);
    put_labels();
    return std::move(svg_).finish();
  }

 private:
  static constexpr int kHeight = 420;

  Point place(const ParetoPlotPoint& point) const {
    return {x_(point.peak), point.beyond ? frame_.top + 8 : y_(point.time)};
  }

  std::string time_text(const ParetoPlotPoint& point) const {
    return fixed(point.time, plot_.time_digits) + " " + plot_.time_unit;
  }

  std::string tip(const ParetoPlotPoint& point) const {
    const std::string told = point.predicted_time <= 0
                                 ? ""
                                 : "; predicted " + fixed(point.predicted_time, plot_.time_digits) + " " +
                                       plot_.time_unit + ", " + fixed(point.predicted_peak, 2) + " " + plot_.unit.name;
    return label(*point.row) + ": " + time_text(point) + ", " + fixed(point.peak, 2) + " " + plot_.unit.name + told;
  }

  void put_budget() {
    if (plot_.budget == 0) return;
    const std::vector<Point> line = {{x_(plot_.budget), frame_.top}, {x_(plot_.budget), frame_.bottom}};
    svg_.path(line, "budget");
    lines_.push_back(line);
    const bool fits = x_(plot_.budget) + 50 < frame_.right;
    svg_.text({x_(plot_.budget) + (fits ? 5 : -5), frame_.bottom - 6}, "budget",
              fits ? TextAnchor::start : TextAnchor::end, "warn");
  }

  // Drawn in steps: no trial is both faster and smaller than these points.
  void put_front(const std::vector<ParetoPlotPoint>& front) {
    std::vector<Point> points;
    for (const ParetoPlotPoint& point : front) {
      const Point at = place(point);
      if (!points.empty()) points.push_back({at.x, points.back().y});
      points.push_back(at);
    }
    if (points.size() > 1) svg_.path(points, "front");
    lines_.push_back(std::move(points));
  }

  void put_frontier(const std::vector<ParetoPlotPoint>& frontier) {
    std::vector<Point> points;
    for (const ParetoPlotPoint& point : frontier) points.push_back(place(point));
    svg_.path(points, "frontier");
    for (size_t i = 0; i < points.size(); ++i)
      svg_.dot(
          points[i], 2.5, "planned",
          "a predicted plan: " + time_text(frontier[i]) + ", " + fixed(frontier[i].peak, 2) + " " + plot_.unit.name);
  }

  void put_point(const ParetoPlotPoint& point) {
    const Point at = place(point);
    if (point.beyond) {
      const std::vector<Point> arrow = {{at.x - 5, at.y + 4}, {at.x + 5, at.y + 4}, {at.x, at.y - 6}};
      svg_.area(arrow, point.row->pareto ? "best" : "other", tip(point));
    } else if (point.row->recommended) {
      svg_.dot(at, 9, "halo");
      put_mark(at, 5.5, "chosen", point);
    } else {
      put_mark(at, point.row->pareto ? 4.5 : 4, point.row->pareto ? "best" : "other", point);
    }
  }

  // Plans are drawn as diamonds, other strategies as dots.
  void put_mark(Point at, double radius, const char* style, const ParetoPlotPoint& point) {
    if (!result::is_planned(*point.row)) return svg_.dot(at, radius, style, tip(point));
    const double reach = 1.25 * radius;  // same area as the dot
    const std::vector<Point> diamond = {
        {at.x - reach, at.y}, {at.x, at.y - reach}, {at.x + reach, at.y}, {at.x, at.y + reach}};
    svg_.area(diamond, style, tip(point));
  }

  void put_predicted(const ParetoPlotPoint& point) {
    if (point.predicted_time <= 0) return;
    const Point told = {x_(point.predicted_peak), y_(point.predicted_time)};
    svg_.line(told, place(point), "leader");
    svg_.dot(told, 4, "predicted");
  }

  // Recommended first, then the front, then the others: later labels may find no place.
  std::vector<const ParetoPlotPoint*> by_importance() const {
    std::vector<const ParetoPlotPoint*> order;
    for (const ParetoPlotPoint& point : plot_.points) order.push_back(&point);
    const auto rank = [](const ParetoPlotPoint* point) {
      return point->row->recommended ? 0 : point->row->pareto ? 1 : 2;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](const ParetoPlotPoint* a, const ParetoPlotPoint* b) { return rank(a) < rank(b); });
    return order;
  }

  void put_labels() {
    std::vector<Point> points;
    for (const ParetoPlotPoint& point : plot_.points) points.push_back(place(point));
    LabelPlacer places({frame_.left + 2, frame_.top - 4, frame_.right + 14, frame_.bottom - 2}, points, lines_);
    for (const ParetoPlotPoint* point : by_importance()) {
      std::string text = shorten(label(*point->row), 46);
      if (point->beyond) text += " " + fixed(point->time, 0) + " " + plot_.time_unit;
      const Point at = place(*point);
      const auto found = places.take(at, text_width(text) * (point->row->recommended ? 1.15 : 1));  // bold is wider
      if (!found) continue;
      if (found->needs_leader_line) svg_.line(at, edge_towards(found->box, at), "leader");
      svg_.text(found->baseline, text, TextAnchor::start,
                point->row->recommended ? "label strong halo-text" : "label halo-text");
    }
  }

  static Point edge_towards(const LabelBox& box, Point point) {
    return {box.left > point.x ? box.left - 2 : box.right + 2, (box.top + box.bottom) / 2};
  }

  const ParetoPlot& plot_;
  SvgWriter svg_;
  PlotAreaRect frame_;
  AxisScale x_, y_;
  std::vector<std::vector<Point>> lines_;  // labels avoid these
};

}  // namespace

std::string pareto_chart(const Report& report) {
  const result::ParetoPlot plot = result::pareto_plot_of(report.rows, report.budget_bytes, report.frontiers);
  return plot.points.empty() ? "" : ParetoChart(plot).draw();
}

}  // namespace memtune::report
