// What a larger budget is worth, with figures that can be checked by hand.
#include "core/answer/result/extra_memory_benefit.h"

#include <doctest/doctest.h>

#include "tests/result/rows.h"

using namespace memtune::result;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 124 ms at 13 GiB; above it 4, 3 and 1 ms a GiB.
std::vector<TrialRow> usual() {
  return {row("floor", 124, 13), row("a", 116, 15), row("b", 109, 18), row("none", 99, 38)};
}

}  // namespace

TEST_CASE("the next GiB saves what the row does that saves most for its bytes") {
  const std::vector<TrialRow> rows = usual();
  const auto price = benefit_of_more_memory(rows, rows[0], 14 * kGiB);
  REQUIRE(price);
  CHECK(price->row == &rows[1]);
  CHECK(price->saved_ms == doctest::Approx(8));
  CHECK(price->ms_per_gib == doctest::Approx(4));
}

TEST_CASE("what keeps the budget is no reason for more, and neither is what is slower") {
  std::vector<TrialRow> rows = usual();
  const auto price = benefit_of_more_memory(rows, rows[1], 15 * kGiB);
  REQUIRE(price);
  CHECK(price->row == &rows[2]);
  CHECK(price->ms_per_gib == doctest::Approx(7.0 / 3));
  rows[2].measurement.step_ms = rows[3].measurement.step_ms = {130, 130, 130, {130}};
  CHECK_FALSE(benefit_of_more_memory(rows, rows[1], 15 * kGiB));
}

TEST_CASE("without a budget, or where the choice does not keep it, more memory has no price") {
  const std::vector<TrialRow> rows = usual();
  CHECK_FALSE(benefit_of_more_memory(rows, rows[0], 0));
  CHECK_FALSE(benefit_of_more_memory(rows, rows[0], 12 * kGiB));
  CHECK_FALSE(benefit_of_more_memory(rows, rows[0], 40 * kGiB));
}

TEST_CASE("a row that failed, trains differently, is of another batch or as fast within the noise sets no price") {
  const auto with = [](auto change) {
    std::vector<TrialRow> rows = {row("floor", 124, 13), row("a", 116, 15)};
    change(rows[1]);
    return benefit_of_more_memory(rows, rows[0], 14 * kGiB).has_value();
  };
  CHECK(with([](TrialRow&) {}));
  CHECK_FALSE(with([](TrialRow& row) { row.measurement.outcome = Outcome::mismatch; }));
  CHECK_FALSE(with([](TrialRow& row) { row.measurement.losses.changed = true; }));
  CHECK_FALSE(with([](TrialRow& row) { row.batch = 2; }));
  CHECK_FALSE(with([](TrialRow& row) { row.measurement.step_ms.high = 125; }));
}
