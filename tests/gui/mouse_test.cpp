// Effects of the mouse: zoom, move, select, and highlight the lifetime of a tensor.
#include <doctest/doctest.h>

#include <regex>

#include "tests/gui/screen.h"

namespace memtune::mouse_test {

using namespace memtune;
using trace::EventKind;

TEST_CASE("the wheel zooms at the mouse and Shift zooms faster") {
  test::Screen screen;
  screen.open(test::small_trace());
  const ImVec2 at = screen.place_of(screen.find_event(EventKind::disk_read));
  screen.point(at.x, at.y);
  const double time = screen.state.view.cursor_ns, whole = screen.state.view.span_ns();
  screen.wheel(1);
  CHECK(screen.state.view.span_ns() == doctest::Approx(whole / 1.25));
  CHECK(screen.state.view.cursor_ns == doctest::Approx(time).epsilon(1e-4));
  screen.wheel(-1);
  CHECK(screen.state.view.span_ns() == doctest::Approx(whole));
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Shift, true);
  screen.wheel(1);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Shift, false);
  CHECK(screen.state.view.span_ns() == doctest::Approx(whole / 2));
}

TEST_CASE("dragging moves the trace with the mouse and selects nothing") {
  test::Screen screen;
  screen.open(test::small_trace());
  const ImVec2 at = screen.place_of(screen.find_event(EventKind::kernel));
  screen.point(at.x, at.y);
  const double time = screen.state.view.cursor_ns;
  screen.button(true);
  screen.point(at.x + 200, at.y);
  screen.button(false);
  CHECK(screen.state.view.cursor_ns == doctest::Approx(time).epsilon(0.05));
  CHECK(screen.state.view.start_ns < 0);
  CHECK_FALSE(screen.state.view.event.has_value());
}

TEST_CASE("dragging with Shift marks a range and sums its kernels") {
  test::Screen screen;
  screen.open(test::small_trace());
  const double start = screen.state.view.start_ns;
  const ImVec2 at = screen.place_of(screen.find_event(EventKind::kernel));
  screen.point(at.x, at.y);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Shift, true);
  screen.button(true);
  screen.point(at.x + 200, at.y);
  screen.button(false);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Shift, false);
  CHECK(screen.state.view.start_ns == start);
  REQUIRE(screen.state.view.marks.size() == 2);
  CHECK(screen.state.view.marks[0] < screen.state.view.marks[1]);
  REQUIRE(screen.state.kernels.has_value());
  CHECK(screen.state.kernels->range.start == screen.state.view.marks[0]);
  CHECK(screen.state.kernels->total_ns > 0);
}

TEST_CASE("a click on any event of a tensor highlights its whole lifetime") {
  test::Screen screen;
  screen.open(test::small_trace());
  for (const EventKind kind : {EventKind::copy_out, EventKind::disk_write, EventKind::disk_read, EventKind::copy_in}) {
    const size_t event = screen.find_event(kind, 1);  // in the second step
    const ImVec2 at = screen.place_of(event);
    screen.point(at.x, at.y);
    screen.click();
    CHECK(screen.state.view.event == event);
    const gui::ValueLifetime lifetime = gui::highlighted_lifetime(screen.state);
    REQUIRE(lifetime.size() == 6);
    CHECK(std::count(lifetime.begin(), lifetime.end(), event) == 1);
  }
}

TEST_CASE("a click on an empty place clears the selection") {
  test::Screen screen;
  screen.open(test::small_trace());
  gui::select_event(screen.state, static_cast<uint32_t>(screen.find_event(EventKind::copy_out)));
  const ImVec2 at = screen.place_of(screen.find_event(EventKind::copy_out));
  screen.point(at.x - 40, at.y);
  screen.click();
  CHECK_FALSE(screen.state.view.event.has_value());
  CHECK(gui::highlighted_lifetime(screen.state).empty());
}

TEST_CASE("a click on a merged bar zooms into it") {
  test::Screen screen;
  screen.open(test::big_trace(50'000));
  const double whole = screen.state.view.span_ns();
  const ImVec2 at = screen.place_of(screen.find_event(EventKind::kernel, 5000));
  screen.point(at.x, at.y);
  screen.click();
  CHECK(screen.state.view.span_ns() < whole);
  CHECK_FALSE(screen.state.view.event.has_value());
}

TEST_CASE("a click on the memory chart shows the owners at that time") {
  test::Screen screen;
  screen.open(test::small_trace());
  const ImVec2 at = screen.place_of(screen.find_event(EventKind::disk_read));
  screen.point(at.x, screen.state.lanes.bottom - 20);
  screen.click();
  REQUIRE(screen.state.view.memory_at_ns.has_value());
  CHECK(static_cast<double>(*screen.state.view.memory_at_ns) == doctest::Approx(5.5 * test::kMs).epsilon(0.01));
}

TEST_CASE("values and ranges requested by another pane are shown in the timeline") {
  test::Screen screen;
  screen.open(test::small_trace());
  screen.state.tab = gui::Tab::findings;
  screen.frames(2);
  gui::show_value(screen.state, 0, trace::ValueId(1));
  screen.frames(3);
  CHECK(screen.state.tab == gui::Tab::timeline);
  CHECK(gui::highlighted_lifetime(screen.state).size() == 6);
  gui::show_range(screen.state, 0, {3 * test::kMs, 4 * test::kMs});
  screen.frames(2);
  CHECK(screen.state.view.span_ns() == doctest::Approx(1.08 * test::kMs));
}

TEST_CASE("a click on a tab changes the pane") {
  test::Screen screen;
  screen.open(test::small_trace());
  for (const gui::Tab tab : {gui::Tab::compare, gui::Tab::findings, gui::Tab::plan, gui::Tab::timeline}) {
    const ImVec2 at = test::Screen::place_of(tab);
    screen.point(at.x, at.y);
    screen.click();
    CHECK(screen.state.tab == tab);
  }
}

TEST_CASE("the details of a kernel name the part of the model it ran for") {
  test::Screen screen;
  screen.open(test::small_trace());
  const ImVec2 at = screen.place_of(screen.find_event(EventKind::kernel, 2));  // "up backward"
  screen.point(at.x, at.y);
  screen.click();
  const std::string said = screen.words();
  CHECK_MESSAGE(std::regex_search(said, std::regex("part\\W+layers.0 backward")), said);
}

TEST_CASE("compute for several parts of the model names no part") {
  test::Screen screen;
  trace::Trace trace = test::small_trace();  // the CPU device records a step as one stretch of compute
  test::add_event(trace, EventKind::kernel, test::kCompute, "compute", 10 * test::kMs, 20 * test::kMs);
  screen.open(trace);
  gui::select_event(screen.state, static_cast<uint32_t>(trace.events.size() - 1));
  screen.frames(2);
  const std::string said = screen.words();
  CHECK(said.find("took") != std::string::npos);
  CHECK_MESSAGE(!std::regex_search(said, std::regex("\\bpart\\W")), said);
}

TEST_CASE("a click on a lane's name folds its rank and R folds all and a selection unfolds its rank") {
  test::Screen screen;
  screen.open(test::trace_of_ranks(3));
  CHECK(screen.state.view.folded == std::set<int32_t>{1, 2});
  const auto name_of = [&](size_t lane) {
    const gui::LaneFrame& frame = screen.state.lanes;
    return ImVec2(frame.left + 20, (frame.lane_y[lane] + frame.lane_y[lane + 1]) / 2);
  };
  const float high = screen.state.lanes.lane_y.back();
  screen.point(name_of(3).x, name_of(3).y);  // the kernels of rank 1
  screen.click();
  CHECK(screen.state.view.folded == std::set<int32_t>{2});
  CHECK(screen.state.lanes.lane_y.back() > high);
  screen.click();  // this row has its steps now
  CHECK(screen.state.view.folded == std::set<int32_t>{1, 2});
  screen.press(ImGuiKey_R);
  CHECK(screen.state.view.folded.empty());
  screen.press(ImGuiKey_R);
  CHECK(screen.state.view.folded == std::set<int32_t>{0, 1, 2});

  const auto& events = screen.state.current().load().trace.events;
  for (uint32_t event = 0; event < events.size(); ++event)
    if (events[event].kind == EventKind::kernel) gui::select_event(screen.state, event);
  CHECK(screen.state.view.folded.size() == 3);  // folded ranks still show kernels
  gui::select_event(screen.state, static_cast<uint32_t>(screen.find_event(EventKind::region)));
  CHECK(screen.state.view.folded.size() == 2);
  screen.frames();
}

TEST_CASE("show_value unfolds the rank of the value") {
  trace::Trace trace = test::trace_of_ranks(3);
  trace.values.push_back({"v", "layers.0", "host", "", 1 << 20, 0});
  for (const auto kind : {EventKind::copy_out, EventKind::copy_in}) {
    const auto role = kind == EventKind::copy_out ? trace::TrackRole::copy_out : trace::TrackRole::copy_in;
    const int64_t at = kind == EventKind::copy_out ? 1 : 6;
    test::add_event(trace, kind, {role, 20, 2}, "v", at, at + 2, 1 << 20, trace::ValueId(0));
  }
  test::Screen screen;
  screen.open(trace);
  REQUIRE(screen.state.view.folded.contains(2));
  gui::show_value(screen.state, 0, trace::ValueId(0));
  screen.frames(2);
  CHECK(screen.state.view.folded == std::set<int32_t>{1});
}

TEST_CASE("a click above the lanes folds nothing and folded ranks stay folded in other trials") {
  test::Screen screen;
  screen.open(test::trace_of_ranks(3));
  screen.point(screen.state.lanes.left + 20, screen.state.lanes.ruler_top + 5);
  screen.click();
  CHECK(screen.state.view.folded == std::set<int32_t>{1, 2});
  screen.press(ImGuiKey_R);
  gui::select_trial(screen.state, 0);
  CHECK(screen.state.view.folded.empty());
}

}  // namespace memtune::mouse_test
