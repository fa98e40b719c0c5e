// All ranks run one plan, so it is planned from the costs of the rank that needs most memory.
#include "core/sweep/proposals/recorded_costs.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/plan/planner/step_predictor.h"
#include "core/sweep/ranks/rank_trials.h"
#include "tests/planner/costs.h"
#include "tests/support/run_program.h"
namespace memtune::sweep::recorded_costs_test {
namespace {

struct RankCosts {
  plan::ProgramFacts program = test::decoder(2);
  test::ScratchFolder folder;

  void write(int rank, int64_t more_bytes, int ranks = 3, int said = -1) {
    plan::RecordedStepCosts costs = test::step_of(program, test::decoder_ms(program));
    costs.sharding.ranks = ranks;
    costs.sharding.rank = said < 0 ? rank : said;
    costs.sharding.units = {{"layers.0", 64, 1}};
    for (auto& moment : costs.moments) moment.peak_bytes += more_bytes;
    write_file(costs_of_rank(folder.path / "costs.json", rank), nlohmann::json(costs).dump());
  }
  std::optional<plan::RecordedStepCosts> read() { return read_costs(folder.path, program); }
  std::string why() {
    std::string why;
    CHECK_FALSE(read_costs(folder.path, program, &why).has_value());
    return why;
  }
};

TEST_CASE("a plan uses the recorded step of the rank with the highest peak") {
  RankCosts costs;
  costs.write(0, 0);
  costs.write(1, 2000);
  costs.write(2, 1000);
  REQUIRE(costs.read().has_value());
  CHECK(costs.read()->sharding.rank == 1);
  costs.write(0, 2000);  // equal: the first rank
  CHECK(costs.read()->sharding.rank == 0);
}

TEST_CASE("costs are not read if those of one rank are missing or from another run, and the reason is returned") {
  RankCosts costs;
  costs.write(0, 0);
  costs.write(1, 0);
  CHECK(costs.why() == "no costs of its steps were recorded (they ran different ops, or its log says why)");
  costs.write(2, 0, 3, 1);  // from another rank
  CHECK(costs.why() == "costs-rank2.json is of another run");
  costs.write(2, 0, 4);  // from another run
  CHECK(costs.why() == "costs-rank2.json is of another run");
  write_file(costs.folder.path / "costs-rank2.json", R"({"version": 2, "rerun_ms": -1})");
  CHECK(costs.why().find("costs-rank2.json") != std::string::npos);
  costs.write(2, 0);
  CHECK(costs.read().has_value());
}

}  // namespace
}  // namespace memtune::sweep::recorded_costs_test
