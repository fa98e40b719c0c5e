// What the compare pane shows, without drawing: rows that are filtered and sorted, the Pareto front, two trials' steps
// laid over each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/layout.h"
#include "core/findings/trace_diff.h"
#include "gui/model/run.h"
#include "gui/model/spot.h"

namespace memtune::gui {

// A column of the table: a figure of result::figures, or what is told otherwise.
enum class CompareColumn { trial, step, times, peak, hidden, exposed, rate, gradients };
struct ColumnInfo {
  CompareColumn column;
  std::string head;
  bool words = false;
  std::string meaning;  // of a head that does not say it by itself
};
std::vector<ColumnInfo> columns(const Run& run);  // in their order

// Nothing where the trial did not get so far, or moved nothing.
std::optional<double> cell_value(const Run& run, size_t trial, CompareColumn column);
std::string cell_text(const Run& run, size_t trial, CompareColumn column);  // "–" for nothing

// Indices into Run::trials whose label or outcome holds every word of `filter`, upper or lower case. Trials without the
// figure come last whichever way it is sorted.
std::vector<size_t> compare_rows(const Run& run, const std::string& filter, CompareColumn by, bool ascending);

// A trial as a point; time is for the same work, as result::Ranking says.
struct ParetoDot {
  size_t trial = 0;
  double peak = 0, time = 0;  // in the scatter's units
  bool pareto = false, recommended = false, planned = false;
  double predicted_peak = 0, predicted_time = 0;  // likewise; 0: not predicted
};
struct Front {
  size_t run = 0;                 // index into Run::reports
  std::vector<ParetoDot> points;  // from the smallest peak up
};
struct Scatter {
  std::vector<ParetoDot> points;  // of trials that worked
  std::vector<Front> fronts;      // one a report, batch and sequence
  std::vector<Front> frontiers;   // likewise, of plans on paper: peak and time alone
  ByteUnit unit{"GiB", 1};        // of peaks
  std::string time_label = "step ms", time_unit = "ms";
  int time_digits = 1;
};
Scatter make_scatter(const Run& run);

// One trial's side of the overlay. Times are milliseconds since the step began.
struct Stretch {
  double start_ms = 0, end_ms = 0;
  size_t kind = 0;  // activity: index into findings::kDeviceParts; blocks: 0 forward, 1 backward, 2 recompute, 3 others
  std::string name;
};
struct OverlaySide {
  double step_ms = 0;
  std::vector<double> times_ms, memory;  // the curve in the overlay's unit, thinned: every column keeps its greatest
  std::vector<Stretch> blocks, activity;
};
struct Overlay {
  OverlaySide a, b;
  ByteUnit unit{"GiB", 1};  // of both curves
  findings::TraceDiff diff;
};
Overlay make_overlay(const LoadedTrace& a, const LoadedTrace& b);

// What the pane remembers between frames.
struct CompareState {
  std::string filter;
  CompareColumn sort_by = CompareColumn::step;
  bool ascending = true;
  std::optional<Overlay> overlay;  // of the trials below
  size_t overlay_a = 0, overlay_b = 0;
  double from_ms = 0, to_ms = 1;  // of the overlay, what is visible
  bool fit = true;
  std::vector<Spot> rows, points;  // of each trial
  std::vector<bool> labelled;      // the point of each trial has its name beside it
  Spot choice;                     // the list of trials for A
  std::vector<Spot> parts;         // of each of the overlay's differences
};

}  // namespace memtune::gui
