// What is worked out of a trial for the panes: its plan, its findings.
#pragma once

#include <optional>
#include <vector>

#include "core/config/plan.h"
#include "core/findings/findings.h"
#include "gui/model/run.h"
#include "gui/model/spot.h"

namespace memtune::gui {

// Nothing when the trial has no plan file, or one that cannot be read.
std::optional<config::Plan> read_plan(const Trial& trial);

// Reads the trace when it has not been read; a trial without one has none.
std::vector<findings::Finding> find_in(const Trial& trial);

// What the findings pane remembers between frames.
struct FindingsState {
  std::optional<std::vector<findings::Finding>> findings;  // of the trial below
  size_t trial = 0;
  std::optional<size_t> selected;
  std::vector<Spot> rows;  // of each finding
};

}  // namespace memtune::gui
