// The table of `memtune plan validate`: which values are counted, where, and which blocks share a row.
#include "core/plan/rules/plan_placement_summary.h"

#include <doctest/doctest.h>

#include "tests/plan/program.h"

namespace memtune::plan_summary_test {

using namespace memtune;
using namespace memtune::plan;
using namespace memtune::test;

namespace {

// Prints a row as "0-1: keep 3 12MiB recompute 1 4MiB".
std::string shown(const BlockRangePlacementTotals& row) {
  std::string text = row.blocks + ":";
  for (size_t place = 0; place < row.sums.size(); ++place) {
    const PlacementTotal& sum = row.sums[place];
    if (sum.values == 0) continue;
    text += " " + to_string(static_cast<TensorPlacement>(place)) + " " + std::to_string(sum.values) + " " +
            std::to_string(sum.bytes / kMiB) + "MiB";
  }
  return text;
}

std::vector<std::string> shown(const std::string& spec, const ProgramFacts& facts) {
  std::vector<std::string> rows;
  const PlanPlacementSummary summary = summarize(plan_of(spec, facts), facts);
  for (const BlockRangePlacementTotals& row : summary.rows) rows.push_back(shown(row));
  rows.push_back(shown(summary.total));
  return rows;
}

using Rows = std::vector<std::string>;

}  // namespace

TEST_CASE("values that backward needs are counted by place and equal blocks share a row") {
  CHECK(shown("none", decoder(3)) ==
        Rows{"before: keep 1 64MiB", "0-2: keep 12 1536MiB", "behind: keep 2 576MiB", "all: keep 39 5248MiB"});
  CHECK(shown("offload:group,tier=disk", decoder(3)) == Rows{"before: keep 1 64MiB", "0-1: disk 12 1536MiB",
                                                             "2: keep 12 1536MiB", "behind: keep 2 576MiB",
                                                             "all: keep 15 2176MiB disk 24 3072MiB"});
}

TEST_CASE("roots of recomputed values are counted as kept and recomputed values by what they free") {
  CHECK(shown("checkpoint:cheap", decoder(1))[1] == "0: keep 8 800MiB recompute 6 768MiB");
}

TEST_CASE("without a measured forward every value is counted and bytes are unknown") {
  const PlanPlacementSummary summary = summarize(plan_of("checkpoint:full", three_blocks()), three_blocks());
  CHECK_FALSE(summary.measured);
  CHECK(shown(summary.rows[1]) == "0-2: keep 1 0MiB recompute 3 0MiB");
}

}  // namespace memtune::plan_summary_test
