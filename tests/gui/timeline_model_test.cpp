#include "gui/model/timeline_model.h"

#include <doctest/doctest.h>

#include "tests/gui/traces.h"

namespace memtune::timeline_model_test {

using namespace memtune;

namespace {

std::vector<std::string> lane_names(const gui::TimelineModel& model) {
  std::vector<std::string> names;
  for (const gui::Lane& lane : model.lanes) names.push_back(lane.name);
  return names;
}

}  // namespace

TEST_CASE("lanes have the reading order of a step whatever the order of tracks") {
  CHECK(lane_names(gui::make_timeline(test::small_trace())) ==
        std::vector<std::string>{"steps", "blocks", "compute (7)", "copies out (20)", "copies in (21)", "disk write",
                                 "disk read", "saved, used"});
}

TEST_CASE("lanes are grouped by rank and named with it") {
  CHECK(lane_names(gui::make_timeline(test::trace_of_ranks(2))) ==
        std::vector<std::string>{"rank 0: steps", "rank 0: compute (7)", "rank 1: steps", "rank 1: compute (7)"});
}

TEST_CASE("with more than two ranks all but one are folded to their compute lane at first") {
  const auto with = [](int ranks) { return gui::make_timeline(test::trace_of_ranks(ranks)); };
  CHECK(gui::folded_at_first(gui::make_timeline(test::small_trace())).empty());
  CHECK(gui::folded_at_first(with(2)).empty());
  const gui::TimelineModel model = with(4);
  CHECK(gui::ranks_of(model) == std::set<int32_t>{0, 1, 2, 3});
  CHECK(gui::folded_at_first(model) == std::set<int32_t>{1, 2, 3});
  trace::Trace measured = test::trace_of_ranks(4);
  measured.measured_rank = 2;
  CHECK(gui::folded_at_first(gui::make_timeline(measured)) == std::set<int32_t>{0, 1, 3});
  std::vector<std::string> names;
  for (const gui::Lane& lane : model.lanes)
    if (gui::shown(lane, {1, 2})) names.push_back(lane.name);
  CHECK(names == std::vector<std::string>{"rank 0: steps", "rank 0: compute (7)", "rank 1: compute (7)",
                                          "rank 2: compute (7)", "rank 3: steps", "rank 3: compute (7)"});
  for (const gui::Lane& lane : gui::make_timeline(test::small_trace()).lanes) CHECK(gui::shown(lane, {-1, 0}));
}

TEST_CASE("a nested span lies in the row below and both events know their row") {
  const trace::Trace trace = test::small_trace(1);
  const auto model = gui::make_timeline(trace);
  const gui::Lane& blocks = model.lanes[1];
  REQUIRE(blocks.rows == 2);
  CHECK(model.rows[blocks.first_row].events.size() == 2);  // forward, backward
  REQUIRE(model.rows[blocks.first_row + 1].events.size() == 1);
  const uint32_t recompute = model.rows[blocks.first_row + 1].events[0];
  CHECK(trace.names[trace.events[recompute].name] == "layers.0 recompute");
  CHECK(model.row_of_event[recompute] == blocks.first_row + 1);
}

TEST_CASE("events may be in any time order") {
  trace::Trace trace = test::small_trace();
  std::reverse(trace.events.begin(), trace.events.end());
  const auto model = gui::make_timeline(trace);
  for (const gui::SpanRow& row : model.rows) CHECK(std::is_sorted(row.starts_ns.begin(), row.starts_ns.end()));
  CHECK(model.whole.start == 0);
  CHECK(model.whole.end == 20 * test::kMs);
}

TEST_CASE("an empty trace and a trace of a single moment have a length") {
  CHECK(gui::make_timeline({}).whole.end == 1);
  trace::Trace trace;
  test::add_event(trace, trace::EventKind::save, test::kValues, "v", 7, 7);
  const auto model = gui::make_timeline(trace);
  CHECK(model.whole.start == 7);
  CHECK(model.whole.end == 8);
  CHECK(model.rows.size() == 1);
}

TEST_CASE("a hundred overlapping events share a limited number of rows") {
  trace::Trace trace;
  for (int i = 0; i < 100; ++i) test::add_event(trace, trace::EventKind::disk_read, test::kRead, "r", i, 1000 + i);
  const auto model = gui::make_timeline(trace);
  CHECK(model.rows.size() == 24);
  for (const gui::SpanRow& row : model.rows) {
    for (size_t i = 1; i < row.events.size(); ++i) CHECK(row.starts_ns[i] >= row.ends_ns[i - 1]);
  }
}

TEST_CASE("an event that ends before it begins has zero length") {
  trace::Trace trace;
  test::add_event(trace, trace::EventKind::kernel, test::kCompute, "k", 100, 50);
  const auto model = gui::make_timeline(trace);
  CHECK(model.rows[0].starts_ns[0] == model.rows[0].ends_ns[0]);
}

}  // namespace memtune::timeline_model_test
