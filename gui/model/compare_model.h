// The data of the compare pane, without drawing: filtered and sorted rows, the Pareto front, and the overlay of two
// trials' steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/answer/findings/trace_step_time_diff.h"
#include "core/base/layout.h"
#include "gui/model/cursor.h"
#include "gui/model/run.h"

namespace memtune::gui {

// The table's columns; most show a figure of result::figures.
enum class CompareColumn { trial, step, times, peak, hidden, exposed, rate, gradients };
struct ColumnInfo {
  CompareColumn column;
  std::string head;
  bool words = false;
  std::string meaning;  // explains the head; "" if that is clear
};
std::vector<ColumnInfo> columns(const Run& run);  // in display order

// None if the trial has no such figure: it failed earlier, or copied nothing.
std::optional<double> cell_value(const Run& run, size_t trial, CompareColumn column);
std::string cell_text(const Run& run, size_t trial, CompareColumn column);  // "–" for none

// Indices into Run::trials whose label or outcome contains every word of `filter`, ignoring case. Trials without the
// figure come last in either order.
std::vector<size_t> compare_rows(const Run& run, const std::string& filter, CompareColumn by, bool ascending);

// A trial as a point. `time` is for the same work, as in result::WorkNormalizedTrialComparator.
struct ParetoDot {
  size_t trial = 0;
  double peak = 0, time = 0;  // in the scatter's units
  bool pareto = false, recommended = false, planned = false;
  double predicted_peak = 0, predicted_time = 0;  // same units; 0: not predicted
};
struct Front {
  size_t run = 0;                 // index into Run::reports
  std::vector<ParetoDot> points;  // from the smallest peak up
};
struct Scatter {
  std::vector<ParetoDot> points;   // of trials that worked
  std::vector<Front> fronts;       // one per report, batch and sequence
  std::vector<Front> frontiers;    // of simulated plans, with only peak and time
  std::vector<double> budgets;     // of the runs, in `unit`, if near the peaks
  ByteDisplayUnit unit{"GiB", 1};  // of peaks
  std::string time_label = "step ms", time_unit = "ms";
  int time_digits = 1;
};
Scatter make_scatter(const Run& run);

// One trial's side of the overlay. Times are milliseconds from the start of the step.
struct Stretch {
  double start_ms = 0, end_ms = 0;
  size_t kind = 0;  // activity: index into findings::kDeviceParts; blocks: 0 forward, 1 backward, 2 recompute, 3 others
  std::string name;
};
struct OverlaySide {
  double step_ms = 0;
  std::vector<double> times_ms, memory;  // memory curve in the overlay's unit; each column keeps its maximum
  std::vector<Stretch> blocks, activity;
};
struct Overlay {
  OverlaySide a, b;
  ByteDisplayUnit unit{"GiB", 1};  // of both curves
  findings::TraceStepTimeDiff diff;
};
Overlay make_overlay(const LoadedTrace& a, const LoadedTrace& b);

// State of the pane between frames.
struct CompareState {
  std::string filter;
  CompareColumn sort_by = CompareColumn::step;
  bool ascending = true;
  std::optional<Overlay> overlay;  // of the two trials below
  size_t overlay_a = 0, overlay_b = 0;
  double from_ms = 0, to_ms = 1;  // visible part of the overlay
  bool fit = true;
  std::vector<Cursor> rows, points;  // one per trial
  std::vector<bool> labelled;        // per trial: its point has a label
  Cursor choice;                     // the list of trials for A
  std::vector<Cursor> parts;         // one per difference in the overlay
};

}  // namespace memtune::gui
