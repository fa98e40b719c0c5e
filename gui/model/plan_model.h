// A trial's plan as a grid: one row per block, and one column per op output that the blocks share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/strategy/plan.h"
#include "core/record/trace/trace_event.h"
#include "gui/model/cursor.h"

namespace memtune::gui {

inline const std::array<std::string, 4> kPlacements = {"keep", "recompute", "host", "disk"};

struct PlacementSum {
  size_t values = 0;
  int64_t bytes = 0;
};
using PlacementSums = std::array<PlacementSum, 4>;  // in the order of kPlacements

struct PlanRow {
  std::string block;                           // "layers.3"
  std::vector<std::optional<uint32_t>> cells;  // one per column: index into PlanGrid::values
  PlacementSums sums;
};

struct PlanGrid {
  std::vector<trace::TracedActivationPlacement> values;
  std::vector<std::string> columns;  // "mlp silu"; the second of that name is "mlp silu 2"
  std::vector<PlanRow> rows;
  std::vector<uint32_t> outside;  // tensors outside all blocks, in order
  PlacementSums sums;             // of all tensors
  bool bytes_known = true;
};

PlanGrid make_plan_grid(std::vector<trace::TracedActivationPlacement> values);
// From a plan without a trace, so bytes and reasons are unknown. `blocks`: names of the model's blocks, in order.
PlanGrid make_plan_grid(const plan::Plan& plan, const std::vector<std::string>& blocks);

// State of the pane between frames.
struct PlanState {
  std::optional<PlanGrid> grid;  // of `trial`
  size_t trial = 0;
  std::vector<Cursor> cells;  // one per tensor
};

}  // namespace memtune::gui
