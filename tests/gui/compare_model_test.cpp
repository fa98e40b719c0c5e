// Sorting, filtering, Pareto front and overlay: the content of the compare pane, tested without drawing.
#include "gui/model/compare_model.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/gui/made_up_run.h"
#include "tests/result/rows.h"
#include "tests/support/run_program.h"

namespace memtune::compare_model_test {

using namespace memtune::gui;

namespace {

using Rows = std::vector<size_t>;

constexpr size_t kNone = 0, kStream = 1, kFull = 2, kSync = 3;  // in ranking order

struct Opened {
  Opened() {
    memtune::test::write_run(folder.path / "run");
    run.add(folder.path / "run");
  }
  memtune::test::ScratchFolder folder;
  Run run;
};

}  // namespace

TEST_CASE("rows are sorted by any figure and rows without it come last in both directions") {
  const Opened opened;
  CHECK(compare_rows(opened.run, "", CompareColumn::step, true) == Rows{kNone, kStream, kFull, kSync});
  CHECK(compare_rows(opened.run, "", CompareColumn::step, false) == Rows{kFull, kStream, kNone, kSync});
  CHECK(compare_rows(opened.run, "", CompareColumn::peak, true) == Rows{kStream, kFull, kNone, kSync});
  CHECK(compare_rows(opened.run, "", CompareColumn::hidden, true) == Rows{kStream, kNone, kFull, kSync});
  CHECK(compare_rows(opened.run, "", CompareColumn::trial, true) == Rows{kFull, kNone, kStream, kSync});
  CHECK(compare_rows(opened.run, "", CompareColumn::trial, false) == Rows{kSync, kStream, kNone, kFull});
}

TEST_CASE("a filter keeps rows that contain all its words in any case and also matches outcomes") {
  const Opened opened;
  CHECK(compare_rows(opened.run, "OFFLOAD", CompareColumn::step, true) == Rows{kStream, kSync});
  CHECK(compare_rows(opened.run, "off str", CompareColumn::step, true) == Rows{kStream});
  CHECK(compare_rows(opened.run, "oom", CompareColumn::step, true) == Rows{kSync});
  CHECK(compare_rows(opened.run, "nothing", CompareColumn::step, true).empty());
}

TEST_CASE("trials of several batch sizes have the same names as in reports") {
  const memtune::test::ScratchFolder folder;
  memtune::test::MadeUpRun made(folder.path / "run");
  memtune::result::TrialMeasurement measurement;
  measurement.strategy = "none";
  made.add(measurement, nullptr, 4, 1024);
  Run run;
  run.add(folder.path / "run");
  CHECK(run.trials[0].label() == "none, batch 4, seq 1024");
  CHECK(run.find_trial("none, batch 4, seq 1024") == 0);
  CHECK(compare_rows(run, "none batch 4", CompareColumn::step, true) == Rows{0});
}

TEST_CASE("figures have the same format as in the table of the terminal") {
  const Opened opened;
  CHECK(cell_text(opened.run, kStream, CompareColumn::step) == "110.0");
  CHECK(cell_text(opened.run, kStream, CompareColumn::times) == "1.10");
  CHECK(cell_text(opened.run, kStream, CompareColumn::peak) == "4.00");
  CHECK(cell_text(opened.run, kNone, CompareColumn::hidden) == "–");
  CHECK(cell_text(opened.run, kSync, CompareColumn::step) == "–");
  CHECK(cell_text(opened.run, kSync, CompareColumn::gradients) == "device_oom");
  CHECK(cell_text(opened.run, kNone, CompareColumn::gradients) == "reference");
  CHECK(cell_text(opened.run, kFull, CompareColumn::gradients) == "equal");
}

TEST_CASE("the Pareto front is ordered by peak and excludes failed trials") {
  const Opened opened;
  const Scatter scatter = make_scatter(opened.run);
  CHECK(scatter.points.size() == 3);
  REQUIRE(scatter.fronts.size() == 1);
  REQUIRE(scatter.fronts[0].points.size() == 2);
  CHECK(scatter.fronts[0].points[0].trial == kStream);
  CHECK(scatter.fronts[0].points[1].trial == kNone);
  CHECK(scatter.fronts[0].points[1].peak == doctest::Approx(8));
}

TEST_CASE("a plan is marked and its prediction is a point in the same units") {
  const memtune::test::ScratchFolder folder;
  memtune::test::MadeUpRun made(folder.path / "run");
  made.add("none", 100, 8, nullptr);
  made.add("plan:4GiB", 120, 4, nullptr);
  made.predict({126, int64_t{5} << 30});
  Run run;
  run.add(folder.path / "run");
  const Scatter scatter = make_scatter(run);
  REQUIRE(scatter.points.size() == 2);
  CHECK_FALSE(scatter.points[0].planned);
  CHECK(scatter.points[0].predicted_time == 0);
  CHECK(scatter.points[1].planned);
  CHECK(scatter.points[1].predicted_time == doctest::Approx(126));
  CHECK(scatter.points[1].predicted_peak == doctest::Approx(5));
}

TEST_CASE("the overlay aligns two trials at the start of a step") {
  const Opened opened;
  const Overlay overlay = make_overlay(opened.run.trials[kNone].load(), opened.run.trials[kStream].load());
  CHECK(overlay.a.step_ms == doctest::Approx(100));
  CHECK(overlay.b.step_ms == doctest::Approx(110));
  CHECK(std::ranges::max(overlay.a.memory) == doctest::Approx(8));
  CHECK(std::ranges::max(overlay.b.memory) == doctest::Approx(4));
  CHECK(overlay.a.times_ms.front() == doctest::Approx(0));
  REQUIRE(overlay.b.blocks.size() == 3);
  CHECK(overlay.b.blocks[2].name == "layers.1 backward");
  CHECK(overlay.b.blocks[2].kind == 1);
  CHECK(overlay.b.blocks[2].end_ms == doctest::Approx(110));
  const auto late = std::ranges::find(overlay.b.activity, 1U, &Stretch::kind);
  REQUIRE(late != overlay.b.activity.end());
  CHECK(late->start_ms == doctest::Approx(90));
  CHECK(late->end_ms == doctest::Approx(100));
}

TEST_CASE("the overlay handles steps of any length and thins their memory curves") {
  constexpr int64_t kFar = int64_t{1} << 61;  // the largest time that a trace allows
  for (const int64_t end : {kFar, int64_t{1'800'000'000} * 1'000'000'000, int64_t{1200}, int64_t{2}}) {
    for (const int64_t start : {-kFar, int64_t{0}, end - 1}) {
      CAPTURE(start);
      CAPTURE(end);
      memtune::findings::MadeUp made;
      made.trace.events[made.step(0, 1)].start_ns = start;
      made.trace.events[0].end_ns = end;
      made.trace.memory = {{start, 1 << 30}, {end - 1, 2 << 20}};
      LoadedTrace loaded;
      loaded.trace = made.trace;
      loaded.timeline.memory = make_memory(loaded.trace);
      const Overlay overlay = make_overlay(loaded, loaded);
      CHECK(overlay.a.step_ms == doctest::Approx((static_cast<double>(end) - static_cast<double>(start)) / 1e6));
      CHECK(overlay.a.times_ms.size() <= 2 * 1200);
      CHECK(std::ranges::is_sorted(overlay.a.times_ms));
      CHECK(overlay.a.memory.front() == 1);
    }
  }
}

TEST_CASE("the number of stretches in a strip is limited") {
  memtune::findings::MadeUp made;
  made.step(0, 100);
  for (int i = 0; i < 100'000; ++i) made.kernel(i * 0.001, i * 0.001 + 0.0005);
  LoadedTrace loaded;
  loaded.trace = made.trace;
  loaded.timeline = make_timeline(loaded.trace);
  CHECK(make_overlay(loaded, loaded).a.activity.size() < 5000);
}

TEST_CASE("trials of several sequence lengths are compared per token with one front for each length") {
  const memtune::test::ScratchFolder folder;
  memtune::test::MadeUpRun made(folder.path / "run");
  for (const memtune::result::TrialResultRow& row : memtune::result::two_lengths())
    made.add(row.measurement, nullptr, {}, row.sequence);
  Run run;
  run.add(folder.path / "run");
  const Scatter scatter = make_scatter(run);
  CHECK(scatter.time_label == "µs a token");
  REQUIRE(scatter.points.size() == 2);
  CHECK(run.trials[scatter.points[0].trial].label() == "none, seq 4096");
  CHECK(run.trials[scatter.points[0].trial].row().recommended);
  CHECK(scatter.points[0].time == doctest::Approx(73.2421875));
  CHECK(scatter.points[1].time == doctest::Approx(97.65625));
  REQUIRE(scatter.fronts.size() == 2);
  CHECK(scatter.fronts[0].points.size() == 1);
  CHECK(cell_text(run, 0, CompareColumn::rate) == "13653");
}

TEST_CASE("trials of several batch sizes are compared per sample") {
  const memtune::test::ScratchFolder folder;
  memtune::test::MadeUpRun made(folder.path / "run");
  for (const memtune::result::TrialResultRow& row : memtune::result::two_batches())
    made.add(row.measurement, nullptr, row.batch);
  Run run;
  run.add(folder.path / "run");
  const Scatter scatter = make_scatter(run);
  CHECK(scatter.time_label == "ms a sample");
  REQUIRE(scatter.points.size() == 2);
  CHECK(run.trials[scatter.points[0].trial].label() == "none, batch 2");
  CHECK(scatter.points[0].time == doctest::Approx(75));
  CHECK(scatter.fronts.size() == 2);
}

TEST_CASE("small models use a smaller unit in the scatter plot and in the overlay") {
  const memtune::test::ScratchFolder folder;
  memtune::test::MadeUpRun made(folder.path / "run");
  memtune::trace::Trace trace = memtune::test::two_blocks("none", 0, 8);
  for (auto& sample : trace.memory) sample.allocated_bytes >>= 10;  // GiB to MiB
  memtune::result::TrialMeasurement measurement;
  measurement.strategy = "none";
  measurement.step_ms = memtune::result::summarize({1, 2, 3});
  measurement.peak_bytes.allocated = 8 << 20;
  made.add(measurement, &trace);
  Run run;
  run.add(folder.path / "run");
  const Scatter scatter = make_scatter(run);
  CHECK(std::string(scatter.unit.name) == "MiB");
  REQUIRE(scatter.points.size() == 1);
  CHECK(scatter.points[0].peak == doctest::Approx(8));
  const Overlay overlay = make_overlay(run.trials[0].load(), run.trials[0].load());
  CHECK(std::string(overlay.unit.name) == "MiB");
  CHECK(std::ranges::max(overlay.a.memory) == doctest::Approx(8));
}

TEST_CASE("predicted frontiers of the run are lines of their own") {
  const memtune::test::ScratchFolder folder;
  memtune::test::MadeUpRun made(folder.path / "run");
  made.add("none", 100, 8, nullptr);
  made.foretell({{}, {}, {{900, int64_t{1} << 30}, {120, int64_t{2} << 30}, {100, int64_t{8} << 30}}});
  Run run;
  run.add(folder.path / "run");
  const Scatter scatter = make_scatter(run);
  REQUIRE(scatter.frontiers.size() == 1);
  REQUIRE(scatter.frontiers[0].points.size() == 2);
  CHECK(scatter.frontiers[0].points[0].peak == 2);
  CHECK(scatter.frontiers[0].points[0].time == doctest::Approx(120));
  CHECK(make_scatter(Opened().run).frontiers.empty());
}

}  // namespace memtune::compare_model_test
