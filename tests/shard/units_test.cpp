// Why: a unit is gathered at once. Units decide how much memory a step holds and in which order.
#include "core/engine/shard/units.h"

#include <doctest/doctest.h>

#include "tests/shard/sharded_training.h"
namespace memtune::tests::units_test {
namespace {

void check_units(frontend::LossKind loss) {
  const program::Program program = ShardedTraining({64, 32, 3, 4, 2, 48, 16}).program(loss);
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

TEST_CASE("units are the embedding and each block and the head in forward order") {
  check_units(frontend::LossKind::next_token);
}

TEST_CASE("a forward without gradients before the step leaves the units as they are") {
  check_units(frontend::LossKind::kto);
}

TEST_CASE("a trained parameter that shares memory is rejected but views of frozen parameters are allowed") {
  const auto units_of = [](const std::function<void(program::Program&)>& change) {
    const program::Program program = ShardedTraining({64, 32, 3, 4, 2, 48, 16}, change).program();
    return shard::find_units(program, program::facts(program, program::find_blocks(program, ""))).size();
  };
  const auto hold_view = [](program::Program& program) {
    program.state.buffers.emplace_back("view", program.state.parameters.back().second.detach());
  };
  CHECK_THROWS_AS(units_of(hold_view), UsageError);
  CHECK(units_of([&](program::Program& program) {
          program.state.parameters.back().second.requires_grad_(false);
          hold_view(program);
        }) == 5);
  CHECK_THROWS_AS(units_of([](program::Program& program) {
                    auto& parameters = program.state.parameters;
                    parameters.back().second.set_data(parameters.front().second.detach());
                  }),
                  UsageError);
}

}  // namespace
}  // namespace memtune::tests::units_test
