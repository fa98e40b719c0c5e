// A strategy that uses less memory pays off if it allows a larger batch. The search finds each strategy's largest batch
// in few trials. All steps keep the same global batch.
#include "core/sweep/proposals/largest_batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/sweep/sweep_bench.h"
namespace memtune::sweep::largest_batch_test {
namespace {

using result::TrialOutcome;
using Batches = std::vector<int64_t>;

// A device of 64 GiB. A sample takes 32 GiB under `none`. Under checkpoint:full it takes 8 GiB and 1.25 times as long.
struct Search : test::SweepBench {
  explicit Search(int64_t global_batch = 12) : SweepBench({"none", "checkpoint:full"}) {
    settings.global_batch = global_batch;
    settings.batches = divisors(global_batch);
  }
  SweepRecordAndReport find(int64_t budget_bytes = 0, const std::string& behaviour = "") {
    const test::Variable memory("FAKE_TRIAL_GIB", "64"), rules("FAKE_TRIAL", behaviour);
    settings.budget_bytes = budget_bytes;
    return run_sweep(settings, listener, propose_largest_batches(budget_bytes));
  }
};

Batches batches(const SweepRecordAndReport& result, const std::string& strategy, TrialOutcome outcome) {
  Batches found;
  for (const result::TrialResultRow& row : result.report.rows)
    if (row.measurement.strategy == strategy && row.measurement.outcome == outcome) found.push_back(*row.batch);
  std::ranges::sort(found);
  return found;
}

TEST_CASE("the candidate batches are the divisors of the global batch") {
  CHECK(divisors(12) == Batches{1, 2, 3, 4, 6, 12});
  CHECK(divisors(16) == Batches{1, 2, 4, 8, 16});
  CHECK(divisors(1) == Batches{1});
  CHECK(divisors(7) == Batches{1, 7});
}

TEST_CASE("the search finds each strategy's largest batch that fits and the next larger one fails") {
  Search search;
  const SweepRecordAndReport result = search.find();
  CHECK(batches(result, "none", TrialOutcome::ok).back() == 2);
  CHECK(batches(result, "none", TrialOutcome::device_oom).front() == 3);
  CHECK(batches(result, "checkpoint:full", TrialOutcome::ok).back() == 6);
  CHECK(batches(result, "checkpoint:full", TrialOutcome::device_oom).front() == 12);
  CHECK(result.report.rows.size() <= 6);  // of twelve combinations
}

TEST_CASE("with a budget the search finds the largest batch that fits the budget") {
  Search search;
  const SweepRecordAndReport result = search.find(int64_t{40} << 30);
  int64_t largest = 0;
  for (const result::TrialResultRow& row : result.report.rows)
    if (row.measurement.strategy == "checkpoint:full" && peak(row) <= (int64_t{40} << 30))
      largest = std::max(largest, *row.batch);
  CHECK(largest == 4);
}

TEST_CASE("gradient accumulation fills the global batch so that all trials do equal work") {
  Search search(4);
  const SweepRecordAndReport result = search.find();
  for (const result::TrialResultRow& row : result.report.rows) {
    if (row.measurement.outcome != TrialOutcome::ok) continue;
    CHECK(row.passes * *row.batch == 4);
    CHECK(row.measurement.step_ms.median == (row.measurement.strategy == "none" ? 400 : 500));
  }
  CHECK(result.report.recommendation.strategy == "none");
  CHECK(result.report.recommendation.batch == 2);
}

TEST_CASE("a batch that crashes is followed by smaller ones and the search can be resumed") {
  Search search;
  const SweepRecordAndReport result = search.find(0, "checkpoint:full=crash");
  CHECK(batches(result, "none", TrialOutcome::ok).back() == 2);
  CHECK(batches(result, "checkpoint:full", TrialOutcome::crash).front() == 1);
  search.starts();
  search.find(0, "checkpoint:full=crash");
  CHECK(search.starts() == "");
}

TEST_CASE("the batch is the whole global batch if everything fits") {
  Search search(2);
  CHECK(batches(search.find(), "none", TrialOutcome::ok).back() == 2);
}

}  // namespace
}  // namespace memtune::sweep::largest_batch_test
