// A trial that did nothing is the baseline, whatever it is called.
#include "core/result/effect.h"

#include <doctest/doctest.h>

#include "core/result/recommend.h"
#include "tests/result/rows.h"

using namespace memtune::result;

namespace {

Row counted(const std::string& strategy, double ms, int64_t moved, int64_t recomputed) {
  Row made = row(strategy, ms);
  made.measurement.transfer.out_bytes = moved;
  made.measurement.recomputed_bytes = recomputed;
  made.measurement.recomputed_ops = recomputed > 0 ? 1 : 0;
  return made;
}

}  // namespace

TEST_CASE("a trial that moved and recomputed nothing did nothing, unless it was not counted, failed or is none") {
  CHECK(did_nothing(counted("offload:stream", 90, 0, 0).measurement));
  CHECK_FALSE(did_nothing(counted("offload:stream", 90, 1, 0).measurement));
  CHECK_FALSE(did_nothing(counted("checkpoint:cheap", 90, 0, 1).measurement));
  CHECK_FALSE(did_nothing(counted("none", 90, 0, 0).measurement));
  CHECK_FALSE(did_nothing(row("checkpoint:full", 90).measurement));
  Row failed = counted("offload:stream", 90, 0, 0);
  failed.measurement.outcome = Outcome::device_oom;
  CHECK_FALSE(did_nothing(failed.measurement));
  Row views = counted("checkpoint:op", 90, 0, 0);  // ops were run again, of values without bytes of their own
  views.measurement.recomputed_ops = 3;
  CHECK_FALSE(did_nothing(views.measurement));
}

TEST_CASE("a trial that did nothing is never recommended nor on the front, however fast, and its neighbour is") {
  std::vector<Row> rows = {row("none", 100, 4), counted("offload:stream", 50, 0, 0)};
  rows[1].measurement.peak_bytes.allocated = 1;
  for (const Goal goal : {Goal::throughput, Goal::memory}) {
    const Recommendation advice = recommend(rows, 0, goal);
    mark_rows(rows, advice);
    CHECK(advice.strategy == "none");
    CHECK(advice.reason.starts_with("the only one that worked"));
    CHECK_FALSE(rows[1].pareto);
  }
  rows[1].measurement.transfer.out_bytes = 1;
  CHECK(recommend(rows, 0, Goal::throughput).strategy == "offload:stream");
}

TEST_CASE("what did nothing stands for none where that was not run") {
  const std::vector<Row> rows = {counted("offload:stream", 50, 0, 0)};
  const Recommendation advice = recommend(rows, 0, Goal::throughput);
  CHECK(advice.strategy == "offload:stream");
  CHECK(advice.fits);
}

TEST_CASE("what changes less moves and recomputes fewer bytes, and not counted, it holds more memory") {
  const Row none = row("none", 100), moves = counted("a", 100, 5, 0), both = counted("b", 100, 3, 3);
  CHECK(changes_less(none, moves));
  CHECK_FALSE(changes_less(moves, none));
  CHECK(changes_less(moves, both));
  CHECK_FALSE(changes_less(both, moves));
  CHECK(changes_less(row("large", 100, 20), row("small", 100, 10)));
}

TEST_CASE("of commands, whose changes nobody counts, the one that takes less memory is preferred") {
  Row lean = row("lean", 100, 10), fat = row("fat", 100, 20);
  lean.command = fat.command = {"train"};
  CHECK(changes_less(lean, fat));
  CHECK_FALSE(changes_less(fat, lean));
  fat.base = true;  // what is as it is stays, where it costs no time
  CHECK(changes_less(fat, lean));
}
