#include "gui/model/plan_model.h"

#include <algorithm>
#include <map>

namespace memtune::gui {
namespace {

void add(const trace::TracedActivationPlacement& value, PlacementSums& sums) {
  const auto found = std::ranges::find(kPlacements, value.placement);
  if (found == kPlacements.end()) return;
  PlacementSum& sum = sums[static_cast<size_t>(found - kPlacements.begin())];
  ++sum.values;
  sum.bytes += value.bytes;
}

// "layers.3.mlp/aten::silu" in "layers.3" -> "mlp silu"
std::string column_of(const trace::TracedActivationPlacement& value) {
  const bool within = value.name.starts_with(value.region);
  std::string name = within ? value.name.substr(value.region.size()) : value.name;
  if (const size_t slash = name.find('/'); slash != std::string::npos) {
    const size_t colons = name.find("::", slash);
    name = name.substr(0, slash) + " " + name.substr(colons == std::string::npos ? slash + 1 : colons + 2);
  }
  const size_t begin = name.find_first_not_of(". ");
  return begin == std::string::npos ? value.name : name.substr(begin);
}

// Collects the columns in the order of each block. A new column goes after the last known one of its block. Blocks that
// share no column go to the end.
class Columns {
 public:
  explicit Columns(std::vector<std::string>& names) : names_(names) {}

  void begin_row(const std::vector<std::pair<std::string, uint32_t>>& row) {
    counts_.clear();
    const bool shares =
        std::ranges::any_of(row, [&](const auto& cell) { return std::ranges::count(names_, cell.first) > 0; });
    last_ = shares ? 0 : names_.size();
  }
  // Makes a name unique within its row.
  std::string unique(const std::string& name) {
    const int count = ++counts_[name];
    return count == 1 ? name : name + " " + std::to_string(count);
  }
  void note(const std::string& name) {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      names_.insert(names_.begin() + static_cast<std::ptrdiff_t>(last_), name);
      ++last_;
    } else {
      last_ = std::max(last_, static_cast<size_t>(found - names_.begin()) + 1);
    }
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, int> counts_;
  size_t last_ = 0;
};

// Index of the block that contains the module path.
int32_t block_of(const std::vector<std::string>& blocks, const std::string& path) {
  const auto found = std::ranges::find_if(
      blocks, [&](const std::string& block) { return path == block || path.starts_with(block + "."); });
  return found == blocks.end() ? trace::kNoBlock : static_cast<int32_t>(found - blocks.begin());
}

}  // namespace

PlanGrid make_plan_grid(std::vector<trace::TracedActivationPlacement> values) {
  PlanGrid grid;
  grid.values = std::move(values);
  std::vector<std::vector<std::pair<std::string, uint32_t>>> named;  // per row
  std::map<std::string, size_t> row_of;
  for (uint32_t i = 0; i < grid.values.size(); ++i) {
    const trace::TracedActivationPlacement& value = grid.values[i];
    add(value, grid.sums);
    if (value.region.empty()) {
      grid.outside.push_back(i);
      continue;
    }
    const auto [row, added] = row_of.try_emplace(value.region, grid.rows.size());
    if (added) {
      grid.rows.push_back({value.region, {}, {}});
      named.emplace_back();
    }
    add(value, grid.rows[row->second].sums);
    named[row->second].emplace_back(column_of(value), i);
  }
  Columns columns(grid.columns);
  for (auto& row : named) {
    columns.begin_row(row);
    for (auto& [name, value] : row) {
      name = columns.unique(name);
      columns.note(name);
    }
  }
  for (size_t r = 0; r < named.size(); ++r) {
    grid.rows[r].cells.resize(grid.columns.size());
    for (const auto& [name, value] : named[r])
      grid.rows[r].cells[static_cast<size_t>(std::ranges::find(grid.columns, name) - grid.columns.begin())] = value;
  }
  return grid;
}

PlanGrid make_plan_grid(const plan::Plan& plan, const std::vector<std::string>& blocks) {
  std::vector<trace::TracedActivationPlacement> values;
  for (const plan::OneOpActivationPlacements& op : plan.placements) {
    const size_t slash = op.name.find('/');
    const std::string region = slash == std::string::npos ? "" : op.name.substr(0, slash);
    std::string name = slash == std::string::npos ? op.name : op.name.substr(slash + 1);
    if (const size_t colons = name.rfind("::"); colons != std::string::npos) name = name.substr(colons + 2);
    name = region.empty() ? name : region + " " + name;
    const int32_t block = block_of(blocks, region);
    const std::string row = block == trace::kNoBlock ? "" : blocks[static_cast<size_t>(block)];
    for (const plan::TensorPlacement place : op.outputs) values.push_back({name, row, to_string(place), "", 0, block});
    if (op.saved != plan::TensorPlacement::keep)
      values.push_back({name + ", its own", row, to_string(op.saved), "", 0, block});
  }
  PlanGrid grid = make_plan_grid(std::move(values));
  grid.bytes_known = false;
  return grid;
}

}  // namespace memtune::gui
