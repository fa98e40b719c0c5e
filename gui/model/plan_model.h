// The plan of a trial as a grid: a row a block, a column for what the same op makes in every block.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/plan.h"
#include "core/trace/event.h"
#include "gui/model/spot.h"

namespace memtune::gui {

inline const std::array<std::string, 4> kPlacements = {"keep", "recompute", "host", "disk"};

struct PlacementSum {
  size_t values = 0;
  int64_t bytes = 0;
};
using PlacementSums = std::array<PlacementSum, 4>;  // in the order of kPlacements

struct PlanRow {
  std::string block;                           // "layers.3"
  std::vector<std::optional<uint32_t>> cells;  // a column each: index into PlanGrid::values
  PlacementSums sums;
};

struct PlanGrid {
  std::vector<trace::TracedValue> values;
  std::vector<std::string> columns;  // "mlp silu"; a second of one name is "mlp silu 2"
  std::vector<PlanRow> rows;
  std::vector<uint32_t> outside;  // values of no block, in their order
  PlacementSums sums;             // of all
  bool bytes_known = true;
};

PlanGrid make_plan_grid(std::vector<trace::TracedValue> values);
// Of a plan alone, where no trace tells bytes and reasons. `blocks`: the names of the model's blocks, in its order.
PlanGrid make_plan_grid(const config::Plan& plan, const std::vector<std::string>& blocks);

// What the pane remembers between frames.
struct PlanState {
  std::optional<PlanGrid> grid;  // of the trial below
  size_t trial = 0;
  std::vector<Spot> cells;  // of each value
};

}  // namespace memtune::gui
