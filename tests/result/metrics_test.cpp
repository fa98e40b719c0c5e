// The table, CSV and the viewer write figures alike because they share this code.
#include "core/answer/result/metrics.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/result/rows.h"

namespace memtune::metrics_test {

using namespace memtune::result;

namespace {

std::string text(const char* key, const std::vector<TrialResultRow>& rows, size_t of = 0) {
  const auto pointers = pointers_to(rows);
  const MetricColumnFormatter column(metric(key), pointers);
  return column.head() + ": " + column.text(rows[of].measurement);
}

}  // namespace

TEST_CASE("every metric has a unique key") {
  std::set<std::string> keys;
  for (const MetricDefinition& each : metrics()) CHECK_MESSAGE(keys.insert(each.key).second, each.key);
  CHECK_THROWS_AS(metric("no such"), std::out_of_range);
}

TEST_CASE("all cells of a column use the digits of its smallest and the unit of its largest value") {
  CHECK(text("step_ms", {row("a", 250), row("b", 1000)}) == "step ms: 250.0");
  CHECK(text("step_ms", {row("a", 250), row("b", 2)}) == "step ms: 250.000");
  CHECK(text("peak_allocated_bytes", {row("a", 1, 3)}) == "peak GiB: 3.00");
  std::vector<TrialResultRow> small = {row("a", 1, 0)};
  small[0].measurement.peak_bytes.allocated = 3 << 19;
  CHECK(text("peak_allocated_bytes", small) == "peak MiB: 1.50");
}

TEST_CASE("the hidden share is unknown without copies and otherwise in percent") {
  std::vector<TrialResultRow> rows = {row("none", 1), row("offload:stream", 1)};
  rows[1].measurement.transfer.out_bytes = 8;
  rows[1].measurement.transfer.hidden = 0.975;
  CHECK(text("hidden", rows, 0) == "hidden %: –");
  CHECK(text("hidden", rows, 1) == "hidden %: 98");
  CHECK(text("exposed_ms", rows, 1) == "exposed ms: 0.0");
}

TEST_CASE("the rate counts tokens if all trials do and otherwise samples") {
  std::vector<TrialResultRow> rows = two_lengths();
  CHECK(rate_metric(pointers_to(rows)).key == std::string("tokens_per_s"));
  CHECK(text("tokens_per_s", rows) == "tokens/s: 10240");
  rows[0].measurement.tokens_per_s = 0;
  CHECK(rate_metric(pointers_to(rows)).key == std::string("samples_per_s"));
  CHECK(text("samples_per_s", rows) == "samples/s: 10.00");
}

}  // namespace memtune::metrics_test
