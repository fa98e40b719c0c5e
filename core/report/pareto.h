// The trials that worked as points of time against peak: what the charts of them, on a page or in a terminal, show.
#pragma once

#include <string>
#include <vector>

#include "core/base/layout.h"
#include "core/report/report.h"

namespace memtune::report {

struct ParetoPoint {
  const Row* row = nullptr;
  double peak = 0;      // in the unit of the plot
  double time = 0;      // ms
  bool beyond = false;  // so slow that the others would shrink to a line: drawn at the upper edge
};

struct ParetoPlot {
  ByteUnit unit{"GiB", 1};
  std::string time_name;                         // "step ms", or "ms a sample" where batch or sequence is an axis
  std::vector<ParetoPoint> points;               // best first, as in the table; refer to the report
  std::vector<std::vector<ParetoPoint>> fronts;  // by peak; one a batch and sequence
  double least_peak = 0, most_peak = 0, least_time = 0, most_time = 0;  // with some room around
  double budget = 0;                                                    // in the unit; 0: none
};
ParetoPlot pareto_plot_of(const Report& report);

}  // namespace memtune::report
