// Why: a strategy that takes less memory pays where it lets a larger batch in. Each strategy's largest has to be found,
// in few trials, with steps that stay what they are.
#include "core/sweep/proposals/largest_batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/sweep/sweep_bench.h"

namespace memtune::sweep {
namespace {

using result::Outcome;
using Batches = std::vector<int64_t>;

// A device of 64 GiB, on which `none` takes 32 a sample, checkpoint:full 8 (and 1.25 times as long).
struct Search : test::SweepBench {
  explicit Search(int64_t global_batch = 12) : SweepBench({"none", "checkpoint:full"}) {
    settings.global_batch = global_batch;
    settings.batches = divisors(global_batch);
  }
  SweepResult find(int64_t budget_bytes = 0, const std::string& behaviour = "") {
    const test::Variable memory("FAKE_TRIAL_GIB", "64"), rules("FAKE_TRIAL", behaviour);
    settings.budget_bytes = budget_bytes;
    return run_sweep(settings, listener, propose_largest_batches(budget_bytes));
  }
};

Batches batches(const SweepResult& result, const std::string& strategy, Outcome outcome) {
  Batches found;
  for (const result::TrialRow& row : result.report.rows)
    if (row.measurement.strategy == strategy && row.measurement.outcome == outcome) found.push_back(*row.batch);
  std::ranges::sort(found);
  return found;
}

TEST_CASE("the batches of a step are what divides its samples") {
  CHECK(divisors(12) == Batches{1, 2, 3, 4, 6, 12});
  CHECK(divisors(16) == Batches{1, 2, 4, 8, 16});
  CHECK(divisors(1) == Batches{1});
  CHECK(divisors(7) == Batches{1, 7});
}

TEST_CASE("of each strategy the largest batch that fits is found, and the next one does not") {
  Search search;
  const SweepResult result = search.find();
  CHECK(batches(result, "none", Outcome::ok).back() == 2);
  CHECK(batches(result, "none", Outcome::device_oom).front() == 3);
  CHECK(batches(result, "checkpoint:full", Outcome::ok).back() == 6);
  CHECK(batches(result, "checkpoint:full", Outcome::device_oom).front() == 12);
  CHECK(result.report.rows.size() <= 6);  // of twelve
}

TEST_CASE("under a budget it is the largest that keeps it") {
  Search search;
  const SweepResult result = search.find(int64_t{40} << 30);
  int64_t largest = 0;
  for (const result::TrialRow& row : result.report.rows)
    if (row.measurement.strategy == "checkpoint:full" && peak(row) <= (int64_t{40} << 30))
      largest = std::max(largest, *row.batch);
  CHECK(largest == 4);
}

TEST_CASE("steps have as many passes as make their samples up, and the same work is compared") {
  Search search(4);
  const SweepResult result = search.find();
  for (const result::TrialRow& row : result.report.rows) {
    if (row.measurement.outcome != Outcome::ok) continue;
    CHECK(row.passes * *row.batch == 4);
    CHECK(row.measurement.step_ms.median == (row.measurement.strategy == "none" ? 400 : 500));
  }
  CHECK(result.report.recommendation.strategy == "none");
  CHECK(result.report.recommendation.batch == 2);
}

TEST_CASE("what crashes is tried with less, and all of it can be resumed") {
  Search search;
  const SweepResult result = search.find(0, "checkpoint:full=crash");
  CHECK(batches(result, "none", Outcome::ok).back() == 2);
  CHECK(batches(result, "checkpoint:full", Outcome::crash).front() == 1);
  search.starts();
  search.find(0, "checkpoint:full=crash");
  CHECK(search.starts() == "");
}

TEST_CASE("where everything fits the batch is the whole step") {
  Search search(2);
  CHECK(batches(search.find(), "none", Outcome::ok).back() == 2);
}

}  // namespace
}  // namespace memtune::sweep
