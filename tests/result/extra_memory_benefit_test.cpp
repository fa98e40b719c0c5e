// The benefit of a larger budget, with figures that can be checked by hand.
#include "core/answer/result/extra_memory_benefit.h"

#include <doctest/doctest.h>

#include "tests/result/rows.h"

namespace memtune::extra_memory_benefit_test {

using namespace memtune::result;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 124 ms at 13 GiB; above that each GiB saves 4, 3 and 1 ms.
std::vector<TrialResultRow> usual() {
  return {row("floor", 124, 13), row("a", 116, 15), row("b", 109, 18), row("none", 99, 38)};
}

}  // namespace

TEST_CASE("the benefit of the next GiB is that of the row with the highest saving per byte") {
  const std::vector<TrialResultRow> rows = usual();
  const auto price = benefit_of_more_memory(rows, rows[0], 14 * kGiB);
  REQUIRE(price);
  CHECK(price->row == &rows[1]);
  CHECK(price->saved_ms == doctest::Approx(8));
  CHECK(price->ms_per_gib == doctest::Approx(4));
}

TEST_CASE("rows that fit the budget or are slower give no benefit of more memory") {
  std::vector<TrialResultRow> rows = usual();
  const auto price = benefit_of_more_memory(rows, rows[1], 15 * kGiB);
  REQUIRE(price);
  CHECK(price->row == &rows[2]);
  CHECK(price->ms_per_gib == doctest::Approx(7.0 / 3));
  rows[2].measurement.step_ms = rows[3].measurement.step_ms = {130, 130, 130, {130}};
  CHECK_FALSE(benefit_of_more_memory(rows, rows[1], 15 * kGiB));
}

TEST_CASE("more memory has no benefit without a budget or with a choice that exceeds it") {
  const std::vector<TrialResultRow> rows = usual();
  CHECK_FALSE(benefit_of_more_memory(rows, rows[0], 0));
  CHECK_FALSE(benefit_of_more_memory(rows, rows[0], 12 * kGiB));
  CHECK_FALSE(benefit_of_more_memory(rows, rows[0], 40 * kGiB));
}

TEST_CASE("rows that failed or train differently or have another batch or are within noise give no benefit") {
  const auto with = [](auto change) {
    std::vector<TrialResultRow> rows = {row("floor", 124, 13), row("a", 116, 15)};
    change(rows[1]);
    return benefit_of_more_memory(rows, rows[0], 14 * kGiB).has_value();
  };
  CHECK(with([](TrialResultRow&) {}));
  CHECK_FALSE(with([](TrialResultRow& row) { row.measurement.outcome = TrialOutcome::mismatch; }));
  CHECK_FALSE(with([](TrialResultRow& row) { row.measurement.losses.changed = true; }));
  CHECK_FALSE(with([](TrialResultRow& row) { row.batch = 2; }));
  CHECK_FALSE(with([](TrialResultRow& row) { row.measurement.step_ms.high = 125; }));
}

}  // namespace memtune::extra_memory_benefit_test
