// The compare, plan and findings panes with mouse and keyboard: each click has its documented effect.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/gui/made_up_run.h"
#include "tests/gui/screen.h"

namespace memtune::panes_test {

using namespace memtune;
using gui::Tab;
using test::MadeUp;

namespace {

constexpr size_t kNone = 0, kStream = 1, kFull = 2, kSync = 3;  // in ranking order

struct Opened : test::Screen {
  explicit Opened(Tab tab) {
    test::write_run(folder.path / "run");
    gui::open_path(state, folder.path / "run");
    state.tab = tab;
    frames(4);
  }
  void click_at(const gui::Cursor& cursor) {
    REQUIRE(cursor.x >= 0);
    point(cursor.x, cursor.y);
    click();
    frames(2);
  }
};

// The trials of the visible table rows, from the top.
std::vector<size_t> shown(const gui::CompareState& compare) {
  std::vector<size_t> trials;
  for (size_t i = 0; i < compare.rows.size(); ++i)
    if (compare.rows[i].x >= 0) trials.push_back(i);
  std::ranges::sort(trials, {}, [&](size_t trial) { return compare.rows[trial].y; });
  return trials;
}

}  // namespace

TEST_CASE("a click on a row selects the trial and Ctrl click the compared one and a second click opens it") {
  Opened screen(Tab::compare);
  CHECK(screen.state.trial == kNone);
  CHECK(screen.state.other_trial == kStream);  // the only other trial with a trace
  screen.click_at(screen.state.compare.rows[kStream]);
  CHECK(screen.state.trial == kStream);
  CHECK(screen.state.tab == Tab::compare);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Ctrl, true);
  screen.click_at(screen.state.compare.rows[kNone]);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Ctrl, false);
  screen.frames(2);
  CHECK(screen.state.trial == kStream);
  CHECK(screen.state.other_trial == kNone);
  screen.click_at(screen.state.compare.rows[kNone]);
  screen.click();
  CHECK(screen.state.trial == kNone);
  CHECK(screen.state.tab == Tab::timeline);
}

TEST_CASE("rows are sorted by speed first and a click on a column header sorts by it") {
  Opened screen(Tab::compare);
  CHECK(shown(screen.state.compare) == std::vector<size_t>{kNone, kStream, kFull, kSync});
  const gui::Cursor first = screen.state.compare.rows[kNone];
  screen.click_at({first.x, first.y - 25});  // the header "trial"
  CHECK(screen.state.compare.sort_by == gui::CompareColumn::trial);
  CHECK(shown(screen.state.compare) == std::vector<size_t>{kFull, kNone, kStream, kSync});
  screen.click_at({first.x, first.y - 25});
  CHECK(shown(screen.state.compare) == std::vector<size_t>{kSync, kStream, kNone, kFull});
}

TEST_CASE("the filter keeps only matching rows") {
  Opened screen(Tab::compare);
  screen.click_at({60, screen.state.compare.rows[kNone].y - 55});
  screen.type("offload");
  CHECK(screen.state.compare.filter == "offload");
  CHECK(shown(screen.state.compare) == std::vector<size_t>{kStream, kSync});
}

TEST_CASE("a click on a point opens its trial") {
  Opened screen(Tab::compare);
  screen.click_at(screen.state.compare.points[kStream]);
  CHECK(screen.state.trial == kStream);
  CHECK(screen.state.tab == Tab::timeline);
}

TEST_CASE("every marker lies within the plot") {
  Opened screen(Tab::compare);
  const auto& points = screen.state.compare.points;
  CHECK(points[kSync].x < 0);
  for (const size_t trial : {kNone, kStream, kFull}) {
    CHECK(points[trial].x > 1060);
    CHECK(points[trial].x < 1560);
    CHECK(points[trial].y > 65);
  }
}

TEST_CASE("a click on a difference shows it in the second trial's timeline") {
  Opened screen(Tab::compare);
  REQUIRE(screen.state.compare.overlay.has_value());
  const auto& parts = screen.state.compare.overlay->diff.parts;
  const auto found = std::ranges::find(parts, "layers.1 backward", &findings::StepPartDiff::name);
  REQUIRE(found != parts.end());
  CHECK(found->delta_ms() == doctest::Approx(10));
  const double start = static_cast<double>(found->in_b.start), end = static_cast<double>(found->in_b.end);
  screen.click_at(screen.state.compare.parts[static_cast<size_t>(found - parts.begin())]);
  CHECK(screen.state.tab == Tab::timeline);
  CHECK(screen.state.trial == kStream);
  CHECK(screen.state.view.start_ns < start);
  CHECK(screen.state.view.end_ns > end);
  CHECK(screen.state.view.span_ns() < 1.2 * (end - start));
}

TEST_CASE("a change of either trial updates the comparison") {
  Opened screen(Tab::compare);
  CHECK(screen.state.compare.overlay->diff.b_ms == doctest::Approx(110));
  screen.state.trial = kStream;
  screen.frames(2);
  CHECK(screen.state.compare.overlay->diff.a_ms == doctest::Approx(110));
  screen.state.other_trial = kNone;
  screen.frames(2);
  CHECK(screen.state.compare.overlay->diff.b_ms == doctest::Approx(100));
}

TEST_CASE("a click on an activation in the plan highlights its lifetime") {
  Opened screen(Tab::plan);
  gui::select_trial(screen.state, kStream);
  screen.frames(2);
  REQUIRE(screen.state.plan.grid.has_value());
  CHECK(screen.state.plan.grid->rows.size() == 2);
  screen.click_at(screen.state.plan.cells[1]);
  CHECK(screen.state.tab == Tab::timeline);
  CHECK(screen.state.view.value == trace::ValueId(1));
  CHECK(gui::highlighted_lifetime(screen.state).size() == 2);
}

TEST_CASE("a trial without a trace shows its plan file and clicks on its cells do nothing") {
  Opened screen(Tab::plan);
  gui::select_trial(screen.state, kFull);
  screen.frames(2);
  REQUIRE(screen.state.plan.grid.has_value());
  CHECK_FALSE(screen.state.plan.grid->bytes_known);
  REQUIRE(screen.state.plan.cells.size() == 2);
  screen.click_at(screen.state.plan.cells[0]);
  CHECK(screen.state.tab == Tab::plan);
}

TEST_CASE("a click on a finding shows its evidence and selects the event") {
  Opened screen(Tab::findings);
  gui::select_trial(screen.state, kStream);
  screen.frames(2);
  REQUIRE(screen.state.findings.findings.has_value());
  const auto& findings = *screen.state.findings.findings;
  const auto late = std::ranges::find(findings, "copies-in-late", &findings::Finding::rule);
  REQUIRE(late != findings.end());
  CHECK(late->ms_per_step == doctest::Approx(10));
  const uint32_t event = late->evidence.events.front();
  screen.click_at(screen.state.findings.rows[static_cast<size_t>(late - findings.begin())]);
  CHECK(screen.state.tab == Tab::timeline);
  CHECK(screen.state.view.event == event);
  CHECK(screen.state.view.start_ns < 90.0 * MadeUp::kMs);
  CHECK(screen.state.view.span_ns() < 40.0 * MadeUp::kMs);
}

TEST_CASE("trials without findings or without a trace and empty traces show a message") {
  const auto says = [](test::Screen& screen, const std::string& words) {
    const std::string said = screen.words();
    CHECK_MESSAGE(said.find(words) != std::string::npos, words << "; said: " << said);
  };
  for (const size_t trial : {kNone, kFull, kSync}) {
    Opened screen(Tab::findings);
    gui::select_trial(screen.state, trial);
    screen.frames(3);
    CHECK(screen.state.findings.findings->size() == (trial == kNone ? size_t{1} : size_t{0}));
    says(screen, trial == kNone ? "2 blocks take 90 % of a step" : "this trial has no trace to look into");
  }
  for (const auto& [tab, words] : {std::pair(Tab::timeline, "the trace holds no events"),
                                   {Tab::compare, "choose a second trial to overlay it with the first"},
                                   {Tab::plan, "neither the trace nor a plan file has the places of activations"},
                                   {Tab::findings, "nothing stands out in this trial"}}) {
    test::Screen screen;
    screen.open({});
    screen.state.tab = tab;
    screen.frames(4);
    CHECK(screen.state.tab == tab);
    says(screen, words);
  }
}

TEST_CASE("opening another run clears the panes") {
  Opened screen(Tab::findings);
  gui::select_trial(screen.state, kStream);
  screen.frames(2);
  screen.open(test::small_trace());
  screen.state.tab = Tab::plan;
  screen.frames(2);
  CHECK(screen.state.plan.grid->values.size() == 2);
  CHECK_FALSE(screen.state.compare.overlay.has_value());
}

TEST_CASE("a comparison with an untraced trial says so and shows no differences") {
  Opened screen(Tab::compare);
  screen.state.other_trial = kFull;
  screen.state.compare.overlay.reset();
  screen.frames(3);
  const std::string said = screen.words();
  for (const char* words : {"checkpoint:full: this trial has no trace", "a measured step: A 100.0, B 130.0 ms (+30.0)",
                            "peak: A 8 GiB, B 5 GiB"})
    CHECK_MESSAGE(said.find(words) != std::string::npos, said);
  CHECK(said.find("most of it") == std::string::npos);
  CHECK_FALSE(screen.state.compare.overlay.has_value());
}

TEST_CASE("Escape closes the list of trials to compare") {
  Opened screen(Tab::compare);
  screen.click_at(screen.state.compare.choice);
  REQUIRE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup));
  screen.press(ImGuiKey_Escape);
  CHECK_FALSE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup));
}

TEST_CASE("the tooltip lists all trials at the same point") {
  test::Screen screen;
  test::MadeUpRun run(screen.folder.path / "run");
  for (const char* name : {"none", "checkpoint:full", "checkpoint:op"}) run.add(name, 100, 8, nullptr);
  gui::open_path(screen.state, screen.folder.path / "run");
  screen.state.tab = Tab::compare;
  screen.frames(4);
  const gui::Cursor at = screen.state.compare.points[0];
  screen.point(at.x, at.y);
  const std::string said = screen.words();
  size_t told = 0;
  for (size_t from = said.find(" GiB at the peak, "); from != std::string::npos;
       from = said.find(" GiB at the peak, ", from + 1))
    ++told;
  CHECK_MESSAGE(told == 3, said);
}

TEST_CASE("the findings pane shows the step below with the stretch of the first finding") {
  Opened screen(Tab::findings);
  gui::select_trial(screen.state, kStream);
  screen.frames(4);
  const auto drawn = [&](trace::EventKind kind) { return screen.rectangles(gui::kind_color(kind)); };
  CHECK(drawn(trace::EventKind::copy_in) > 0);
  CHECK(drawn(trace::EventKind::copy_out) > 0);
  screen.click_at({900, 800});  // into the picture
  CHECK(screen.state.tab == Tab::timeline);
  CHECK(screen.state.view.span_ns() < 40.0 * MadeUp::kMs);
}

}  // namespace memtune::panes_test
