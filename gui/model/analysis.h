// What is worked out of a trial for the panes: its plan, its findings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/findings/findings.h"
#include "core/trace/held_values.h"
#include "gui/model/run.h"
#include "gui/model/spot.h"

namespace memtune::gui {

// Nothing when the trial has no plan file, or one that cannot be read.
std::optional<config::Plan> read_plan(const Trial& trial);

// Reads the trace when it has not been read; a trial without one has none.
std::vector<findings::Finding> find_in(const Trial& trial);

// What lies on the device at a moment of a trial's trace: worked out once, as long as the moment stays.
struct HeldState {
  size_t trial = 0;
  int64_t time_ns = 0;
  std::string phase;  // "layers.3 backward": what the device was in; may be empty
  std::vector<trace::HeldValues> values;
};
HeldState held_at(const LoadedTrace& loaded, size_t trial, int64_t time_ns);

// What the findings pane remembers between frames.
struct FindingsState {
  std::optional<std::vector<findings::Finding>> findings;  // of the trial below
  size_t trial = 0;
  std::optional<size_t> selected, hovered;
  std::vector<Spot> rows;  // of each finding
};

}  // namespace memtune::gui
