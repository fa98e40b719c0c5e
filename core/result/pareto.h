// The trials that worked as points of time against peak: what the plots of them, on a page, in a terminal or in the
// viewer, show.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/layout.h"
#include "core/result/ranking.h"

namespace memtune::result {

// Sets Row::pareto: no usable row of the same batch and sequence is both faster and smaller.
void mark_front(std::span<Row> rows);

// The rows so marked, one front a batch and sequence, each from the smallest peak up.
std::vector<std::vector<const Row*>> fronts_of(std::span<const Row* const> rows);

struct ParetoPoint {
  const Row* row = nullptr;
  double peak = 0;      // in the unit of the plot
  double time = 0;      // for the same work, in the plot's time unit
  bool beyond = false;  // so slow that the others would shrink to a line: drawn at the upper edge
  double predicted_peak = 0, predicted_time = 0;  // where it was expected; 0: not predicted
};

struct ParetoPlot {
  ByteUnit unit{"GiB", 1};
  std::string time_name, time_unit;                 // "step ms" and "ms", as Ranking says
  int time_digits = 1;                              // so many behind the point tell the points apart
  std::vector<ParetoPoint> points;                  // best first, as in the table; refer to the rows
  std::vector<std::vector<ParetoPoint>> fronts;     // by peak; one a batch and sequence
  std::vector<std::vector<ParetoPoint>> frontiers;  // likewise, of plans on paper: without rows
  double least_peak = 0, most_peak = 0, least_time = 0, most_time = 0;  // with some room around
  double budget = 0;                                                    // in the unit; 0: none
};
// `frontiers`: those of settings that a row is of; the parts that are far slower than the trials are left out.
ParetoPlot pareto_plot_of(std::span<const Row> rows, int64_t budget_bytes, std::span<const Frontier> frontiers = {});

// A frontier in the units of a plot of `rows`, whose time for the same work follows the batch and the sequence; by
// peak, without what is much slower than `slowest`, a time of the plot.
std::vector<ParetoPoint> placed(const Frontier& frontier, std::span<const Row* const> rows, const Ranking& ranking,
                                const ByteUnit& unit, double slowest);

}  // namespace memtune::result
