#include "core/report/pareto.h"

#include <algorithm>
#include <map>
#include <utility>

namespace memtune::report {
namespace {

constexpr double kBeyond = 1.6;  // times the median

bool has_axes(const Report& report) {
  return std::any_of(report.rows.begin(), report.rows.end(), [&](const Row& row) {
    return row.batch != report.rows.front().batch || row.sequence != report.rows.front().sequence;
  });
}

void mark_beyond(std::vector<ParetoPoint>& points) {
  std::vector<double> times;
  for (const ParetoPoint& point : points) times.push_back(point.time);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double limit = kBeyond * times[times.size() / 2];
  for (ParetoPoint& point : points) point.beyond = point.time > limit && !point.row->recommended;
}

void set_ranges(ParetoPlot& plot) {
  const ParetoPoint& first = plot.points.front();
  plot.least_peak = plot.most_peak = first.peak;
  plot.least_time = plot.most_time = first.time;
  for (const ParetoPoint& point : plot.points) {
    plot.least_peak = std::min(plot.least_peak, point.peak);
    plot.most_peak = std::max(plot.most_peak, point.peak);
    if (point.beyond) continue;
    plot.least_time = std::min(plot.least_time, point.time);
    plot.most_time = std::max(plot.most_time, point.time);
  }
  const auto widen = [](double& low, double& high) {
    const double room = std::max({(high - low) * 0.08, high * 0.01, 1e-9});
    low = std::max(0.0, low - room);
    high += room;
  };
  widen(plot.least_peak, plot.most_peak);
  widen(plot.least_time, plot.most_time);
}

std::vector<std::vector<ParetoPoint>> fronts_of(const std::vector<ParetoPoint>& points) {
  std::map<std::pair<std::optional<int64_t>, std::optional<int64_t>>, std::vector<ParetoPoint>> fronts;
  for (const ParetoPoint& point : points) {
    if (point.row->pareto) fronts[{point.row->batch, point.row->sequence}].push_back(point);
  }
  std::vector<std::vector<ParetoPoint>> result;
  for (auto& [axes, front] : fronts) {
    std::sort(front.begin(), front.end(), [](const ParetoPoint& a, const ParetoPoint& b) { return a.peak < b.peak; });
    result.push_back(std::move(front));
  }
  return result;
}

}  // namespace

ParetoPlot pareto_plot_of(const Report& report) {
  ParetoPlot plot;
  const bool by_sample = has_axes(report);
  plot.time_name = by_sample ? "ms a sample" : "step ms";
  int64_t largest = 0;
  for (const Row& row : report.rows) largest = std::max(largest, row.measurement.peak_bytes.allocated);
  plot.unit = unit_for(largest);
  for (const Row* row : ranked(report)) {
    const result::Measurement& m = row->measurement;
    const double time = by_sample && m.samples_per_s > 0 ? 1000 / m.samples_per_s : m.step_ms.median;
    if (m.outcome != result::Outcome::ok || !(time > 0)) continue;
    plot.points.push_back({row, static_cast<double>(m.peak_bytes.allocated) / plot.unit.bytes, time, false});
  }
  if (plot.points.empty()) return plot;
  mark_beyond(plot.points);
  set_ranges(plot);
  plot.fronts = fronts_of(plot.points);
  plot.budget = static_cast<double>(report.budget_bytes) / plot.unit.bytes;
  return plot;
}

}  // namespace memtune::report
