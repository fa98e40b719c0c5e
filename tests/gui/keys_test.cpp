// Every key in the help has its documented effect. The tests send real key events through ImGui's queue.
#include <doctest/doctest.h>

#include "gui/pane/shortcuts.h"
#include "tests/gui/screen.h"

namespace memtune::keys_test {

using namespace memtune;
using gui::Tab;
using gui::Theme;
using gui::ViewState;

namespace {

double middle(const ViewState& view) { return (view.start_ns + view.end_ns) / 2; }

}  // namespace

TEST_CASE("W and S zoom at the mouse and A and D move the view") {
  test::Screen screen;
  screen.open(test::small_trace());
  const ViewState whole = screen.state.view;
  const ImVec2 at = screen.place_of(screen.find_event(trace::EventKind::copy_out));
  screen.point(at.x, at.y);
  const double time = screen.state.view.cursor_ns;
  screen.press(ImGuiKey_W);
  CHECK(screen.state.view.span_ns() < whole.span_ns());
  CHECK(screen.state.view.cursor_ns == doctest::Approx(time).epsilon(1e-4));
  screen.press(ImGuiKey_S);
  CHECK(screen.state.view.span_ns() == doctest::Approx(whole.span_ns()).epsilon(1e-4));
  screen.press(ImGuiKey_D);
  CHECK(screen.state.view.start_ns > whole.start_ns);
  CHECK(screen.state.view.span_ns() == doctest::Approx(whole.span_ns()).epsilon(1e-4));
  screen.press(ImGuiKey_A);
  CHECK(screen.state.view.start_ns == doctest::Approx(whole.start_ns).epsilon(1e-3));
}

TEST_CASE("F fits the selected event or the lifetime of its tensor or the whole trace") {
  test::Screen screen;
  screen.open(test::small_trace());
  const double whole = screen.state.view.span_ns();
  gui::select_event(screen.state, static_cast<uint32_t>(screen.find_event(trace::EventKind::kernel)));
  screen.press(ImGuiKey_F);
  CHECK(screen.state.view.span_ns() == doctest::Approx(1.08 * test::kMs));
  gui::select_event(screen.state, static_cast<uint32_t>(screen.find_event(trace::EventKind::copy_in)));
  screen.press(ImGuiKey_F);
  CHECK(screen.state.view.span_ns() == doctest::Approx(1.08 * 6 * test::kMs));
  screen.press(ImGuiKey_Escape);
  screen.press(ImGuiKey_F);
  CHECK(screen.state.view.span_ns() == doctest::Approx(whole));
}

TEST_CASE("Home shows the whole trace and keeps the selection") {
  test::Screen screen;
  screen.open(test::small_trace());
  const double whole = screen.state.view.span_ns();
  gui::select_event(screen.state, 0);
  screen.state.view.fit({0, 100});
  screen.press(ImGuiKey_Home);
  CHECK(screen.state.view.span_ns() == doctest::Approx(whole));
  CHECK(screen.state.view.event.has_value());
}

TEST_CASE("P centers the peak and shows the owners of memory there") {
  test::Screen screen;
  screen.open(test::small_trace());
  screen.press(ImGuiKey_P);
  CHECK(middle(screen.state.view) == doctest::Approx(15 * test::kMs));
  CHECK(screen.state.view.span_ns() == doctest::Approx(2 * test::kMs));
  CHECK(screen.state.view.memory_at_ns == 15 * test::kMs);
}

TEST_CASE("M marks the time under the mouse and two marks measure and Escape removes them") {
  test::Screen screen;
  screen.open(test::small_trace());
  const ImVec2 from = screen.place_of(screen.find_event(trace::EventKind::save, 0));
  const ImVec2 to = screen.place_of(screen.find_event(trace::EventKind::use, 0));
  screen.point(from.x, from.y);
  screen.press(ImGuiKey_M);
  screen.point(to.x, to.y);
  screen.press(ImGuiKey_M);
  REQUIRE(screen.state.view.marks.size() == 2);
  const auto length = static_cast<double>(screen.state.view.marks[1] - screen.state.view.marks[0]);
  CHECK(length == doctest::Approx(7 * test::kMs).epsilon(0.01));
  screen.press(ImGuiKey_Escape);
  CHECK(screen.state.view.marks.empty());
}

TEST_CASE("Ctrl F focuses the search and Enter and Shift Enter go through the hits") {
  test::Screen screen;
  screen.open(test::small_trace());
  screen.press(ImGuiMod_Ctrl | ImGuiKey_F);
  CHECK(ImGui::GetIO().WantTextInput);
  const ViewState before = screen.state.view;
  screen.type("up backward");
  CHECK(screen.state.search.text() == "up backward");
  CHECK(screen.state.view.start_ns == before.start_ns);  // the field gets the letters a, w, d and p
  REQUIRE(screen.state.search.hits().size() == 2);
  const size_t first = screen.find_event(trace::EventKind::kernel, 2),
               second = screen.find_event(trace::EventKind::kernel, 5);
  screen.press(ImGuiKey_Enter);
  CHECK(screen.state.view.event == first);
  CHECK(middle(screen.state.view) == doctest::Approx(8.5 * test::kMs));
  screen.press(ImGuiKey_Enter);
  CHECK(screen.state.view.event == second);
  screen.press(ImGuiMod_Shift | ImGuiKey_Enter);
  CHECK(screen.state.view.event == first);
}

TEST_CASE("Ctrl F switches to the timeline from other tabs") {
  test::Screen screen;
  screen.open(test::small_trace());
  screen.state.tab = Tab::plan;
  screen.frames(2);
  screen.press(ImGuiMod_Ctrl | ImGuiKey_F);
  CHECK(screen.state.tab == Tab::timeline);
  CHECK(ImGui::GetIO().WantTextInput);
}

TEST_CASE("T changes the theme and its colors") {
  test::Screen screen;
  screen.open(test::small_trace());
  const ImU32 ground = gui::palette().lane;
  screen.press(ImGuiKey_T);
  CHECK(screen.state.theme == Theme::light);
  CHECK(gui::palette().lane != ground);
  screen.press(ImGuiKey_T);
  CHECK(screen.state.theme == Theme::dark);
}

TEST_CASE("Ctrl with plus or minus or 0 scales everything") {
  test::Screen screen;
  screen.open(test::small_trace());
  const float usual = gui::px(100);
  screen.press(ImGuiMod_Ctrl | ImGuiKey_Equal);
  CHECK(gui::px(100) == doctest::Approx(usual * 1.1));
  CHECK(ImGui::GetStyle().FontScaleDpi == doctest::Approx(1.1));
  screen.press(ImGuiMod_Ctrl | ImGuiKey_Minus);
  screen.press(ImGuiMod_Ctrl | ImGuiKey_Minus);
  CHECK(gui::px(100) == doctest::Approx(usual / 1.1));
  screen.press(ImGuiMod_Ctrl | ImGuiKey_0);
  CHECK(gui::px(100) == doctest::Approx(usual));
}

TEST_CASE("Ctrl Q quits and Q alone does not") {
  test::Screen screen;
  screen.open(test::small_trace());
  screen.press(ImGuiKey_Q);
  CHECK_FALSE(screen.state.quit);
  screen.press(ImGuiMod_Ctrl | ImGuiKey_Q);
  CHECK(screen.state.quit);
}

TEST_CASE("the question mark opens the help and Escape closes it") {
  test::Screen screen;
  screen.open(test::small_trace());
  screen.type("?");  // on any keyboard layout
  CHECK(screen.state.help);
  screen.press(ImGuiKey_Escape);
  CHECK_FALSE(screen.state.help);
}

TEST_CASE("number keys select a trial and Tab swaps it with the compared one") {
  test::Screen screen;
  screen.open(test::small_trace(1));
  const std::filesystem::path other = screen.folder.path / "other.mttrace";
  trace::write_trace(other, test::small_trace(3));
  gui::open_path(screen.state, other, true);
  REQUIRE(screen.state.run.trials.size() == 2);
  screen.press(ImGuiKey_2);
  CHECK(screen.state.trial == 1);
  CHECK(screen.state.view.whole.end == 30 * test::kMs);
  screen.press(ImGuiKey_9);  // no such trial
  CHECK(screen.state.trial == 1);
  screen.press(ImGuiKey_1);
  screen.state.other_trial = 1;
  screen.press(ImGuiKey_Tab);
  CHECK(screen.state.trial == 1);
  CHECK(screen.state.other_trial == 0);
}

TEST_CASE("keys do nothing if nothing is open") {
  test::Screen screen;
  for (const ImGuiKey key : {ImGuiKey_F, ImGuiKey_P, ImGuiKey_M, ImGuiKey_W, ImGuiKey_Home, ImGuiKey_1, ImGuiKey_Tab,
                             ImGuiKey_Enter, ImGuiKey_Escape, ImGuiKey_T})
    screen.press(key);
  for (const Tab tab : {Tab::compare, Tab::plan, Tab::findings, Tab::timeline}) {
    screen.state.tab = tab;
    screen.frames(2);
  }
  CHECK(screen.state.theme == Theme::light);
}

TEST_CASE("a mark is at the mouse even if it moved in the frame of the key press") {
  test::Screen screen;
  screen.open(test::small_trace());
  ImGui::GetIO().ConfigInputTrickleEventQueue = false;  // like events of a script
  const gui::TimeAxis axis = screen.state.lanes.axis;
  const float y = screen.place_of(screen.find_event(trace::EventKind::kernel)).y;
  screen.point(axis.left + 100, y);
  ImGui::GetIO().AddMousePosEvent(axis.left + 400, y);
  ImGui::GetIO().AddKeyEvent(ImGuiKey_M, true);
  screen.frames();
  REQUIRE(screen.state.view.marks.size() == 1);
  CHECK(static_cast<double>(screen.state.view.marks[0]) == doctest::Approx(axis.time(axis.left + 400)).epsilon(1e-6));
}

TEST_CASE("Escape closes an open list only and the next click selects in the timeline") {
  test::Screen screen;
  screen.open(test::small_trace());
  const size_t copy = screen.find_event(trace::EventKind::copy_out),
               kernel = screen.find_event(trace::EventKind::kernel);
  gui::select_event(screen.state, static_cast<uint32_t>(copy));
  screen.frames(2);
  screen.point(60, 52);  // the list of trials, below the tabs
  screen.click();
  REQUIRE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup));
  screen.press(ImGuiKey_Escape);
  CHECK_FALSE(ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup));
  CHECK(screen.state.view.event == copy);
  const ImVec2 at = screen.place_of(kernel);
  screen.point(at.x, at.y);
  screen.click();
  CHECK(screen.state.view.event == kernel);
  screen.press(ImGuiKey_Escape);
  CHECK_FALSE(screen.state.view.event.has_value());
}

TEST_CASE("the window's title names what is open") {
  test::Screen screen;
  CHECK(gui::window_title(screen.state) == "memtune");
  screen.open(test::small_trace());
  CHECK(gui::window_title(screen.state) == "trace.mttrace - memtune");
  gui::open_path(screen.state, screen.folder.path / "." / "trace.mttrace", true);
  CHECK(gui::window_title(screen.state) == "trace.mttrace, trace.mttrace - memtune");
}

}  // namespace memtune::keys_test
