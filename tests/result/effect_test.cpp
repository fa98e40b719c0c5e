// A trial counts as what it did: the baseline, or the strategy without the parts that had no effect.
#include "core/answer/result/effect.h"

#include <doctest/doctest.h>

#include "core/answer/result/pareto.h"
#include "core/answer/result/recommend.h"
#include "core/base/error.h"
#include "core/plan/strategy/strategy.h"
#include "tests/result/rows.h"

namespace memtune::effect_test {

using namespace memtune::result;

namespace {

TrialResultRow counted(const std::string& strategy, double ms, int64_t moved, int64_t recomputed) {
  TrialResultRow made = row(strategy, ms);
  made.measurement.transfer.out_bytes = moved;
  made.measurement.recomputed_bytes = recomputed;
  made.measurement.recomputed_ops = recomputed > 0 ? 1 : 0;
  return made;
}

std::string effective(const std::string& strategy, int64_t moved, int64_t recomputed) {
  return effective_strategy(counted(strategy, 90, moved, recomputed).measurement);
}

struct Composed {
  std::string checkpoint, without_moves, offload;  // without_moves: the checkpoint with its inputs kept
  std::string name() const { return checkpoint + "+" + offload; }
  bool offloads_inputs() const { return checkpoint != without_moves; }
};

// Each checkpoint strategy with each offload strategy, except those that exclude each other.
std::vector<Composed> all_composed() {
  std::vector<std::pair<std::string, std::string>> checkpoints;
  std::vector<std::string> offloads;
  for (const auto& info : memtune::plan::strategies()) {
    const std::string name = info.name == "checkpoint:every=n" ? "checkpoint:every=2" : std::string(info.name);
    if (name.starts_with("offload:")) offloads.push_back(name);
    if (!name.starts_with("checkpoint:")) continue;
    checkpoints.emplace_back(name, info.preset && info.preset->inputs ? "checkpoint:full" : name);
    if (info.preset) continue;
    checkpoints.emplace_back(name + ",inputs=host", name);
    checkpoints.emplace_back(name + ",inputs=disk,blocks=0-1", name + ",blocks=0-1");
  }
  checkpoints.emplace_back("checkpoint:full,segment=4", "checkpoint:full,segment=4");
  checkpoints.emplace_back("checkpoint:hf-offload,every=3", "checkpoint:every=3");
  for (const char* more :
       {"offload:stream,tier=disk,fraction=0.25", "offload:sync,min=2MiB", "offload:group,blocks=2-"})
    offloads.emplace_back(more);
  std::vector<Composed> all;
  for (const auto& [checkpoint, without] : checkpoints)
    for (const std::string& offload : offloads)
      if (memtune::plan::Strategy::of_name(checkpoint + "+" + offload)) all.push_back({checkpoint, without, offload});
  return all;
}

}  // namespace

TEST_CASE("a checkpoint with an offload counts only as the part that had an effect") {
  const std::vector<Composed> all = all_composed();
  REQUIRE(all.size() > 100);
  for (const Composed& each : all) {
    const std::string name = each.name();
    CAPTURE(name);
    CHECK(effective(name, 0, 1) == each.without_moves);
    CHECK(effective(each.checkpoint, 0, 1) == each.without_moves);
    CHECK(effective(name, 0, 0) == "none");
    TrialResultRow both = counted(name, 90, 1, 1), moved = counted(name, 90, 1, 0);
    both.measurement.transfer.disk_write_bytes = moved.measurement.transfer.disk_write_bytes = 1;
    CHECK(effective_strategy(both.measurement) == name);
    // Offloaded inputs have no name without their checkpoint.
    CHECK(effective_strategy(moved.measurement) == (each.offloads_inputs() ? name : each.offload));
  }
}

TEST_CASE("a combination with an ineffective part is never recommended and not on the front") {
  for (const Composed& each : all_composed())
    for (const bool moved : {false, true}) {
      if (moved && each.offloads_inputs()) continue;
      const std::string left = moved ? each.offload : each.without_moves, name = each.name();
      CAPTURE(name);
      std::vector<TrialResultRow> rows = {row("none", 100, 4), counted(left, 80, moved, !moved),
                                          counted(name, 50, moved, !moved)};
      for (TrialResultRow& row : rows) row.measurement.transfer.disk_write_bytes = row.measurement.transfer.out_bytes;
      rows[2].measurement.peak_bytes.allocated = 1;
      for (const RecommendationGoal goal : {RecommendationGoal::throughput, RecommendationGoal::memory}) {
        const Recommendation advice = recommend(rows, 0, goal);
        mark_rows(rows, advice);
        CHECK(advice.strategy == left);
        CHECK(advice.reason.find(name) == std::string::npos);
        CHECK(rows[1].pareto);
        CHECK_FALSE(rows[2].pareto);
      }
      for (const ParetoPlotPoint& point : pareto_plot_of(rows, 0).points) CHECK(point.row != &rows[2]);
      CHECK(effect_text(rows[2].measurement) ==
            "equal to " + left + (moved ? ": nothing was recomputed" : ": nothing was offloaded"));
      CHECK(effect_text(rows[1].measurement) == "");
      rows[1].measurement.outcome = TrialOutcome::device_oom;  // then this row stands for it
      CHECK(recommend(rows, 0, RecommendationGoal::throughput).strategy == name);
    }
}

TEST_CASE("offloading to disk that wrote nothing counts as offloading to CPU memory") {
  TrialResultRow made = counted("checkpoint:full,inputs=disk+offload:stream,tier=disk,min=4KiB", 90, 1, 1);
  CHECK(effective_strategy(made.measurement) == "checkpoint:full,inputs=host+offload:stream,min=4KiB");
  CHECK(effect_text(made.measurement).ends_with(": nothing was written to disk"));
  made.measurement.transfer.disk_write_bytes = 1;
  CHECK_FALSE(has_ineffective_part(made.measurement));
}

TEST_CASE("a plan and a command without counters keep their names") {
  CHECK(effective("plan:16GiB", 0, 1) == "plan:16GiB");
  CHECK(effective("plan:16GiB", 0, 0) == "none");
  CHECK_FALSE(has_ineffective_part(row("checkpoint:full+offload:stream", 90).measurement));
}

TEST_CASE("the reason for no effect follows the effect text and is written once") {
  TrialMeasurement m = counted("checkpoint:cheap+offload:stream", 90, 0, 1).measurement;
  m.no_effect = "every activation is below min=1MiB";
  m.no_effect = effect_text(m);
  CHECK(m.no_effect == "equal to checkpoint:cheap: nothing was offloaded; every activation is below min=1MiB");
  CHECK(effect_text(m) == m.no_effect);
}

TEST_CASE("a command variant with the same peak and copies and losses equals the other variant") {
  const auto variant = [](const std::string& name, int64_t peak_gib, std::vector<double> loss) {
    TrialResultRow made = row(name, 100, peak_gib);
    made.command = {"train"};
    made.measurement.loss = std::move(loss);
    return made;
  };
  std::vector<TrialResultRow> rows = {variant("own", 9, {2.5, 2.25}), variant("checkpoints", 5, {2.5, 2.25}),
                                      variant("hidden_states", 5, {2.5, 2.25}), variant("offload", 9, {2.5, 2.25}),
                                      variant("batch 2", 9, {2.5, 2.0})};
  const std::vector<std::string> likes = {"none", "checkpoint:full", "checkpoint:axolotl-hidden", "offload:trl",
                                          "checkpoint:full"};
  std::vector<TrialResultRow> moved = rows;
  moved[2].measurement.transfer.out_bytes = 4096;
  compare_effects(rows, likes);
  CHECK(rows[2].measurement.no_effect == "equal to checkpoints: nothing was offloaded");
  CHECK(rows[3].measurement.no_effect == "equal to own: nothing was offloaded");
  for (const int i : {0, 1, 4}) CHECK_FALSE(has_ineffective_part(rows[i].measurement));
  CHECK(choices(rows).size() == 3);
  compare_effects(moved, likes);
  CHECK_FALSE(has_ineffective_part(moved[2].measurement));
}

TEST_CASE("a trial that offloaded and recomputed nothing had no effect unless uncounted or failed or none") {
  CHECK(had_no_effect(counted("offload:stream", 90, 0, 0).measurement));
  CHECK_FALSE(had_no_effect(counted("offload:stream", 90, 1, 0).measurement));
  CHECK_FALSE(had_no_effect(counted("checkpoint:cheap", 90, 0, 1).measurement));
  CHECK_FALSE(had_no_effect(counted("none", 90, 0, 0).measurement));
  CHECK_FALSE(had_no_effect(row("checkpoint:full", 90).measurement));
  TrialResultRow failed = counted("offload:stream", 90, 0, 0);
  failed.measurement.outcome = TrialOutcome::device_oom;
  CHECK_FALSE(had_no_effect(failed.measurement));
  TrialResultRow views = counted("checkpoint:op", 90, 0, 0);  // recomputed ops whose results have no bytes of their own
  views.measurement.recomputed_ops = 3;
  CHECK_FALSE(had_no_effect(views.measurement));
}

TEST_CASE("a trial without effect is never recommended and not on the front") {
  std::vector<TrialResultRow> rows = {row("none", 100, 4), counted("offload:stream", 50, 0, 0)};
  rows[1].measurement.peak_bytes.allocated = 1;
  for (const RecommendationGoal goal : {RecommendationGoal::throughput, RecommendationGoal::memory}) {
    const Recommendation advice = recommend(rows, 0, goal);
    mark_rows(rows, advice);
    CHECK(advice.strategy == "none");
    CHECK(advice.reason.starts_with("the only one that worked"));
    CHECK_FALSE(rows[1].pareto);
  }
  rows[1].measurement.transfer.out_bytes = 1;
  CHECK(recommend(rows, 0, RecommendationGoal::throughput).strategy == "offload:stream");
}

TEST_CASE("a trial without effect stands for none if none was not run") {
  const std::vector<TrialResultRow> rows = {counted("offload:stream", 50, 0, 0)};
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "offload:stream");
  CHECK(advice.fits);
}

TEST_CASE("changing less means fewer offloaded and recomputed bytes or the larger peak if uncounted") {
  const TrialResultRow none = row("none", 100), moves = counted("a", 100, 5, 0), both = counted("b", 100, 3, 3);
  CHECK(changes_less(none, moves));
  CHECK_FALSE(changes_less(moves, none));
  CHECK(changes_less(moves, both));
  CHECK_FALSE(changes_less(both, moves));
  CHECK(changes_less(row("large", 100, 20), row("small", 100, 10)));
}

TEST_CASE("the command with the lower peak is preferred because commands report no counters") {
  TrialResultRow lean = row("lean", 100, 10), fat = row("fat", 100, 20);
  lean.command = fat.command = {"train"};
  CHECK(changes_less(lean, fat));
  CHECK_FALSE(changes_less(fat, lean));
  fat.base = true;  // the base stays if that costs no time
  CHECK(changes_less(fat, lean));
}

}  // namespace memtune::effect_test
