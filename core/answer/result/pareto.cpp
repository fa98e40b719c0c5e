#include "core/answer/result/pareto.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/answer/result/effect.h"
#include "core/base/median.h"

namespace memtune::result {
namespace {

constexpr double kBeyond = 1.6;         // times the median
constexpr double kFrontierRoom = 1.25;  // times the slowest; slower points would compress the scale

void mark_beyond(std::vector<ParetoPlotPoint>& points) {
  std::vector<double> times;
  for (const ParetoPlotPoint& point : points) times.push_back(point.time);
  const double limit = kBeyond * upper_median(std::move(times));
  for (ParetoPlotPoint& point : points) {
    point.beyond = point.time > limit && !point.row->recommended;
    if (point.beyond || point.predicted_time > limit) point.predicted_peak = point.predicted_time = 0;
  }
}

// Placed relative to the measured point by the prediction errors, which hold for any unit of work.
void set_predicted(ParetoPlotPoint& point) {
  const auto step = step_error(*point.row), peak = peak_error(*point.row);
  if (!step || !peak) return;
  const double place = point.peak * (1 + *peak), time = point.time * (1 + *step);
  if (std::isfinite(place) && std::isfinite(time)) point.predicted_peak = place, point.predicted_time = time;
}

void set_frontiers(std::span<const PredictedFrontier> frontiers, std::span<const TrialResultRow> rows,
                   const WorkNormalizedTrialComparator& ranking, ParetoPlot& plot) {
  double slowest = 0;
  for (const ParetoPlotPoint& point : plot.points)
    if (!point.beyond) slowest = std::max({slowest, point.time, point.predicted_time});
  for (const PredictedFrontier& frontier : frontiers) {
    std::vector<ParetoPlotPoint> line = placed(frontier, pointers_to(rows), ranking, plot.unit, slowest);
    if (line.size() > 1) plot.frontiers.push_back(std::move(line));
  }
}

void set_ranges(ParetoPlot& plot) {
  const ParetoPlotPoint& first = plot.points.front();
  plot.least_peak = plot.most_peak = first.peak;
  plot.least_time = plot.most_time = first.time;
  const auto take = [&](double peak, double time, bool beyond) {
    plot.least_peak = std::min(plot.least_peak, peak);
    plot.most_peak = std::max(plot.most_peak, peak);
    if (beyond) return;
    plot.least_time = std::min(plot.least_time, time);
    plot.most_time = std::max(plot.most_time, time);
  };
  for (const ParetoPlotPoint& point : plot.points) {
    take(point.peak, point.time, point.beyond);
    if (point.predicted_time > 0) take(point.predicted_peak, point.predicted_time, false);
  }
  for (const auto& line : plot.frontiers)
    for (const ParetoPlotPoint& point : line) take(point.peak, point.time, false);
  plot.time_digits = plot.time_unit == "ms" ? 1 : digits_for(plot.least_time);
  const auto widen = [](double& low, double& high) {
    const double room = std::max({(high - low) * 0.08, high * 0.01, 1e-9});
    low = std::max(0.0, low - room);
    high += room;
  };
  widen(plot.least_peak, plot.most_peak);
  widen(plot.least_time, plot.most_time);
}

void set_budget(double budget, ParetoPlot& plot) {
  if (!budget_is_near(budget, plot.least_peak, plot.most_peak)) return;
  const double room = 0.04 * (plot.most_peak - plot.least_peak);
  plot.budget = budget;
  plot.least_peak = std::min(plot.least_peak, budget - room);
  plot.most_peak = std::max(plot.most_peak, budget + room);
}

void set_fronts(ParetoPlot& plot) {
  std::vector<const TrialResultRow*> rows;
  std::map<const TrialResultRow*, ParetoPlotPoint> points;
  for (const ParetoPlotPoint& point : plot.points) {
    rows.push_back(point.row);
    points[point.row] = point;
  }
  for (const auto& front : fronts_of(rows)) {
    std::vector<ParetoPlotPoint>& line = plot.fronts.emplace_back();
    for (const TrialResultRow* row : front) line.push_back(points[row]);
  }
}

}  // namespace

void mark_front(std::span<TrialResultRow> rows) {
  const WorkNormalizedTrialComparator ranking{std::span<const TrialResultRow>(rows)};
  const auto beats = [&](const TrialResultRow& a, const TrialResultRow& b) {  // at least as good in both, better in one
    const double time_a = ranking.time(a), time_b = ranking.time(b);
    return same_axes(a, b) && !is_untimed(a.measurement) && time_a <= time_b &&
           required_bytes(a) <= required_bytes(b) && (time_a < time_b || required_bytes(a) < required_bytes(b));
  };
  const std::vector<const TrialResultRow*> chosen = choices(rows);
  for (TrialResultRow& row : rows) {
    row.pareto = std::ranges::count(chosen, &row) > 0 && !is_untimed(row.measurement) &&
                 std::ranges::none_of(chosen, [&](const TrialResultRow* other) { return beats(*other, row); });
  }
}

std::vector<std::vector<const TrialResultRow*>> fronts_of(std::span<const TrialResultRow* const> rows) {
  std::map<std::pair<std::optional<int64_t>, std::optional<int64_t>>, std::vector<const TrialResultRow*>> by_axes;
  for (const TrialResultRow* row : rows) {
    if (row->pareto) by_axes[{row->batch, row->sequence}].push_back(row);
  }
  std::vector<std::vector<const TrialResultRow*>> fronts;
  for (auto& [axes, front] : by_axes) {
    std::ranges::stable_sort(front, {}, [](const TrialResultRow* row) { return required_bytes(*row); });
    fronts.push_back(std::move(front));
  }
  return fronts;
}

std::vector<ParetoPlotPoint> placed(const PredictedFrontier& frontier, std::span<const TrialResultRow* const> rows,
                                    const WorkNormalizedTrialComparator& ranking, const ByteDisplayUnit& unit,
                                    double slowest) {
  const auto is_of_it = [&](const TrialResultRow* row) {
    return row->batch == frontier.batch && row->sequence == frontier.sequence && usable(row->measurement) &&
           row->measurement.step_ms.median > 0;
  };
  const auto of_it = std::ranges::find_if(rows, is_of_it);
  if (of_it == rows.end()) return {};
  const double scale = ranking.time(**of_it) / (*of_it)->measurement.step_ms.median;
  std::vector<ParetoPlotPoint> points;
  for (const TrialPrediction& plan : frontier.plans)
    if (scale * plan.step_ms <= kFrontierRoom * slowest)
      points.push_back({nullptr, static_cast<double>(required_bytes(plan)) / unit.bytes, scale * plan.step_ms});
  return points;
}

ParetoPlot pareto_plot_of(std::span<const TrialResultRow> rows, int64_t budget_bytes,
                          std::span<const PredictedFrontier> frontiers) {
  ParetoPlot plot;
  const WorkNormalizedTrialComparator ranking(rows);
  plot.time_name = ranking.title();
  plot.time_unit = ranking.unit();
  int64_t largest = 0;
  for (const TrialResultRow& row : rows) largest = std::max(largest, required_bytes(row));
  plot.unit = unit_for(largest);
  const std::vector<const TrialResultRow*> chosen = choices(rows);
  for (const TrialResultRow* row : ranked(rows)) {
    if (std::ranges::count(chosen, row) == 0) continue;
    plot.points.push_back({row, static_cast<double>(required_bytes(*row)) / plot.unit.bytes, ranking.time(*row)});
    set_predicted(plot.points.back());
  }
  if (plot.points.empty()) return plot;
  mark_beyond(plot.points);
  set_frontiers(frontiers, rows, ranking, plot);
  set_ranges(plot);
  set_fronts(plot);
  set_budget(static_cast<double>(budget_bytes) / plot.unit.bytes, plot);
  return plot;
}

}  // namespace memtune::result
