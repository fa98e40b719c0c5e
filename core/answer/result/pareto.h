// Working trials as points of step time and peak memory, for the plots of the page, the terminal and the viewer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/layout.h"

namespace memtune::result {

// Sets Row::pareto: no usable row with the same batch and sequence is faster and smaller.
void mark_front(std::span<TrialResultRow> rows);

// The marked rows: one front per batch and sequence, each sorted by peak.
std::vector<std::vector<const TrialResultRow*>> fronts_of(std::span<const TrialResultRow* const> rows);

struct ParetoPlotPoint {
  const TrialResultRow* row = nullptr;
  double peak = 0;      // in the plot's unit
  double time = 0;      // for the same work, in the plot's unit
  bool beyond = false;  // much slower than the others; drawn at the upper edge to keep the scale
  double predicted_peak = 0, predicted_time = 0;  // 0: not predicted
};

struct ParetoPlot {
  ByteDisplayUnit unit{"GiB", 1};
  std::string time_name, time_unit;                     // "step ms" and "ms", from WorkNormalizedTrialComparator
  int time_digits = 1;                                  // decimals that distinguish the points
  std::vector<ParetoPlotPoint> points;                  // best first, as in the table; they point to the rows
  std::vector<std::vector<ParetoPlotPoint>> fronts;     // one per batch and sequence, by peak
  std::vector<std::vector<ParetoPlotPoint>> frontiers;  // the same for predicted plans, without rows
  double least_peak = 0, most_peak = 0, least_time = 0, most_time = 0;  // with a margin
  double budget = 0;  // in the plot's unit, within the range of peaks; 0: none, or too far away to be drawn
};

// `frontiers` are those of the rows' settings. Parts that are much slower than the trials are left out.
ParetoPlot pareto_plot_of(std::span<const TrialResultRow> rows, int64_t budget_bytes,
                          std::span<const PredictedFrontier> frontiers = {});

// Whether a plot of these peaks has room for the budget's line: a budget far away would squeeze the points.
inline bool budget_is_near(double budget, double least_peak, double most_peak) {
  return budget >= 0.5 * least_peak && budget <= 1.5 * most_peak && budget > 0;
}

// Converts a frontier to the units of a plot of `rows`. Time for the same work depends on batch and sequence. Points
// are sorted by peak; those much slower than `slowest`, a time of the plot, are left out.
std::vector<ParetoPlotPoint> placed(const PredictedFrontier& frontier, std::span<const TrialResultRow* const> rows,
                                    const WorkNormalizedTrialComparator& ranking, const ByteDisplayUnit& unit,
                                    double slowest);

}  // namespace memtune::result
