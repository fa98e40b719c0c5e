// The plan grid aligns blocks as rows and activations of the same op as columns, even if some blocks lack an op.
#include "gui/model/plan_model.h"

#include <doctest/doctest.h>

namespace memtune::plan_model_test {

using namespace memtune::gui;
using memtune::trace::TracedActivationPlacement;

namespace {

using Names = std::vector<std::string>;

TracedActivationPlacement value(const std::string& block, const std::string& name, const std::string& placement,
                                int64_t bytes) {
  return {block.empty() ? name : block + name, block, placement, "", bytes};
}

}  // namespace

TEST_CASE("a block is a row and a name is a column and missing activations leave empty cells") {
  const PlanGrid grid =
      make_plan_grid({value("layers.0", ".attn norm", "recompute", 4), value("layers.0", ".mlp silu", "host", 8),
                      value("layers.1", ".attn norm", "keep", 4), value("layers.1", ".attn sdpa", "keep", 2),
                      value("layers.1", ".mlp silu", "disk", 8)});
  CHECK(grid.columns == Names{"attn norm", "attn sdpa", "mlp silu"});
  REQUIRE(grid.rows.size() == 2);
  CHECK(grid.rows[0].block == "layers.0");
  CHECK_FALSE(grid.rows[0].cells[1].has_value());
  CHECK(grid.rows[0].cells[2] == 1U);
  CHECK(grid.rows[1].cells[1] == 3U);
}

TEST_CASE("a second activation of the same name has a column of its own") {
  const PlanGrid grid =
      make_plan_grid({value("layers.0", " linear", "keep", 1), value("layers.0", " linear", "host", 1)});
  CHECK(grid.columns == Names{"linear", "linear 2"});
  CHECK(grid.rows[0].cells[1] == 1U);
}

TEST_CASE("sums by placement include activations outside of blocks") {
  const PlanGrid grid = make_plan_grid(
      {value("layers.0", " a", "keep", 1), value("layers.0", " b", "host", 2), value("", "logits", "keep", 10)});
  CHECK(grid.outside == std::vector<uint32_t>{2});
  CHECK(grid.sums[0].values == 2);
  CHECK(grid.sums[0].bytes == 11);
  CHECK(grid.sums[2].bytes == 2);
  CHECK(grid.rows[0].sums[0].bytes == 1);
}

TEST_CASE("a plan file alone gives a grid without bytes") {
  memtune::plan::Plan plan;
  plan.placements = {
      {0, "embed/aten::embedding", {memtune::plan::TensorPlacement::keep}, memtune::plan::TensorPlacement::keep},
      {1,
       "layers.0.mlp/aten::linear",
       {memtune::plan::TensorPlacement::host},
       memtune::plan::TensorPlacement::recompute}};
  const PlanGrid grid = make_plan_grid(plan, {"layers.0", "layers.1"});
  CHECK_FALSE(grid.bytes_known);
  CHECK(grid.columns == Names{"mlp linear", "mlp linear, its own"});
  CHECK(grid.rows[0].block == "layers.0");
  CHECK(grid.values[*grid.rows[0].cells[1]].placement == "recompute");
  CHECK(grid.outside.size() == 1);
}

TEST_CASE("the rows of a plan file are the model's blocks whatever their names") {
  memtune::plan::Plan plan;
  for (const char* name : {"down.1.attn.out/aten::linear", "down.12.attn/aten::linear", "down.1.norm.0/aten::norm"})
    plan.placements.push_back({0, name, {memtune::plan::TensorPlacement::host}, memtune::plan::TensorPlacement::keep});
  const PlanGrid grid = make_plan_grid(plan, {"down.1.attn", "down.12.attn"});
  REQUIRE(grid.rows.size() == 2);
  CHECK(grid.rows[0].block == "down.1.attn");
  CHECK(grid.rows[1].block == "down.12.attn");
  CHECK(grid.outside.size() == 1);
}

TEST_CASE("a trace without activations gives an empty grid") {
  CHECK(make_plan_grid(std::vector<TracedActivationPlacement>{}).rows.empty());
  CHECK(make_plan_grid(memtune::plan::Plan{}, {}).values.empty());
}

}  // namespace memtune::plan_model_test
