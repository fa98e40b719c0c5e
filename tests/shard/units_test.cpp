// Why: a unit is what is gathered at once, so it decides how much memory a step holds, and in which order.
#include "core/shard/units.h"

#include <doctest/doctest.h>

#include "tests/shard/sharded_training.h"

namespace memtune::tests {
namespace {

TEST_CASE("each block is a unit, and so are the embedding and the head, in the order of the forward") {
  const program::Program program = ShardedTraining({64, 32, 3, 4, 2, 48, 16}).program();
  const auto facts = program::facts(program, program::find_blocks(program, ""));
  REQUIRE(facts.blocks.size() == 3);
  const auto units = shard::find_units(program, facts);
  std::vector<std::string> names;
  size_t parameters = 0;
  for (const auto& unit : units) {
    names.push_back(unit.name);
    parameters += unit.parameters.size();
  }
  const std::string first = facts.blocks[0].region, last = facts.blocks[2].region;
  CHECK(names == std::vector<std::string>{"before " + first, first, facts.blocks[1].region, last, "behind " + last});
  CHECK(units[0].parameters.size() == 1);
  CHECK(parameters == program.state.parameters.size());
}

}  // namespace
}  // namespace memtune::tests
