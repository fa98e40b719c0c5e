// Computes a trial's plan, findings and memory for the panes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/answer/findings/findings.h"
#include "core/plan/strategy/plan.h"
#include "core/record/trace/resident_values.h"
#include "gui/model/cursor.h"
#include "gui/model/run.h"

namespace memtune::gui {

// None if the trial has no readable plan file.
std::optional<plan::Plan> read_plan(const Trial& trial);

// Loads the trace if necessary. Empty for a trial without a trace.
std::vector<findings::Finding> find_in(const Trial& trial);

// The tensors on the device at one moment of a trial's trace. It is cached until the moment changes.
struct HeldState {
  size_t trial = 0;
  int64_t time_ns = 0;
  std::string phase;  // the region running on the device: "layers.3 backward"; may be empty
  std::vector<trace::ResidentActivationTotalsOfOp> values;
};
HeldState held_at(const LoadedTrace& loaded, size_t trial, int64_t time_ns);

// State of the findings pane between frames.
struct FindingsState {
  std::optional<std::vector<findings::Finding>> findings;  // of `trial`
  size_t trial = 0;
  std::optional<size_t> selected, hovered;
  std::vector<Cursor> rows;  // one per finding
};

}  // namespace memtune::gui
