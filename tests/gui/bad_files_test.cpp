// Why: the viewer opens untrusted files. For any content it must report the error and show the readable part.
#include <doctest/doctest.h>

#include <fstream>

#include "tests/gui/screen.h"

namespace memtune::bad_files_test {

using namespace memtune;

namespace {

std::string bytes_of(const trace::Trace& trace, const std::filesystem::path& path) {
  trace::write_trace(path, trace);
  return test::slurp(path);
}

// Opens the content and draws every tab. Returns the problem of the loaded trace, or the message if nothing was loaded.
std::string opened(test::Screen& screen, const std::string& content) {
  const std::filesystem::path path = screen.folder.path / "bad.mttrace";
  std::ofstream(path, std::ios::binary) << content;
  screen.state.run = {};
  screen.state.message.clear();
  gui::open_path(screen.state, path);
  for (size_t tab = 0; tab < gui::kTabNames.size(); ++tab) {
    screen.state.tab = static_cast<gui::Tab>(tab);
    screen.frames(2);
  }
  return screen.state.has_trial() ? screen.state.current().load().problem : screen.state.message;
}

}  // namespace

TEST_CASE("a file truncated at every thousandth byte opens up to the cut and the message names the byte") {
  test::Screen screen;
  const std::string whole = bytes_of(test::big_trace(3000), screen.folder.path / "whole");
  for (size_t size = 1000; size < whole.size(); size += 1000) {
    CAPTURE(size);
    const std::string problem = opened(screen, whole.substr(0, size));
    CHECK_MESSAGE(problem.find("cannot be read from byte ") != std::string::npos, problem);
  }
  CHECK(opened(screen, whole) == "");
}

TEST_CASE("a flipped byte anywhere causes a message and never a crash") {
  test::Screen screen;
  const std::string whole = bytes_of(test::small_trace(), screen.folder.path / "whole");
  for (size_t at = 0; at < whole.size(); at += 37) {
    CAPTURE(at);
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    CHECK(opened(screen, damaged) != "");
  }
}

TEST_CASE("a file that is no trace gives a message") {
  test::Screen screen;
  CHECK(opened(screen, "").find("is not a trace file") != std::string::npos);
  CHECK(opened(screen, "MTTRACE").find("is not a trace file") != std::string::npos);
  gui::open_path(screen.state, "/no/such/thing");
  CHECK(screen.state.message.find("no such run or trace: '/no/such/thing'") == 0);
  gui::open_path(screen.state, screen.folder.path);
  CHECK(screen.state.message.find("no sweep in ") == 0);
}

TEST_CASE("a bad file keeps the open trace") {
  test::Screen screen;
  screen.open(test::small_trace());
  gui::open_path(screen.state, "/no/such/thing");
  screen.frames(2);
  CHECK(screen.state.current().load().trace.events.size() == 30);
}

TEST_CASE("an empty trace and traces of one event or one memory sample are shown") {
  test::Screen screen;
  CHECK(opened(screen, bytes_of({}, screen.folder.path / "none")) == "");
  trace::Trace one;
  test::add_event(one, trace::EventKind::kernel, test::kCompute, "k", 5, 5);
  CHECK(opened(screen, bytes_of(one, screen.folder.path / "one")) == "");
  screen.press(ImGuiKey_F);
  screen.press(ImGuiKey_P);
  screen.press(ImGuiKey_M);
  trace::Trace memory;
  memory.memory = {{7, 100}};
  CHECK(opened(screen, bytes_of(memory, screen.folder.path / "memory")) == "");
  screen.press(ImGuiKey_P);
}

// A step, kernels in both directions and memory samples between two times.
trace::Trace far_apart(int64_t first, int64_t last) {
  trace::Trace trace;
  test::add_region(trace, test::kStep, "step", first, last);
  test::add_event(trace, trace::EventKind::kernel, test::kCompute, "k", first, last);
  test::add_event(trace, trace::EventKind::kernel, test::kCompute, "k", last, first);
  trace.memory = {{last, 1}, {first, int64_t{1} << 46}, {0, -1}};
  return trace;
}

// Draws the trace in every tab, compared with itself, and zoomed in.
void look_at(test::Screen& screen, const std::filesystem::path& path) {
  gui::open_path(screen.state, path, true);
  for (size_t tab = 0; tab < gui::kTabNames.size(); ++tab) {
    screen.state.tab = static_cast<gui::Tab>(tab);
    screen.frames(2);
  }
  screen.state.tab = gui::Tab::timeline;
  screen.frames(2);
  screen.press(ImGuiKey_P);
  screen.wheel(30);
}

TEST_CASE("times as far apart as a trace allows are drawn") {
  test::Screen screen;
  const std::filesystem::path path = screen.folder.path / "far";
  constexpr int64_t kFar = (int64_t{1} << 61) - 1;
  CHECK(opened(screen, bytes_of(far_apart(-kFar, kFar), path)) == "");
  look_at(screen, path);
  REQUIRE(screen.state.compare.overlay.has_value());
  CHECK(screen.state.compare.overlay->a.step_ms == doctest::Approx(2.0 * static_cast<double>(kFar) / 1e6));
}

TEST_CASE("times at the limits of 64 bits are rejected and earlier events are shown") {
  test::Screen screen;
  for (const auto& [first, last] :
       {std::pair(INT64_MIN, INT64_MAX), {INT64_MIN, INT64_MIN + 600}, {INT64_MAX - 600, INT64_MAX}}) {
    CAPTURE(first);
    const std::filesystem::path path = screen.folder.path / "ends";
    const std::string problem = opened(screen, bytes_of(far_apart(first, last), path));
    CHECK_MESSAGE(problem.find("cannot be read from byte ") != std::string::npos, problem);
    look_at(screen, path);
  }
}

TEST_CASE("the ruler can draw times since 1970") {
  test::Screen screen;
  constexpr int64_t kNow = 1'700'000'000'000'000'000;  // adjacent doubles are 256 apart
  const std::filesystem::path path = screen.folder.path / "unix";
  CHECK(opened(screen, bytes_of(far_apart(kNow, kNow + 600), path)) == "");
  look_at(screen, path);
}

TEST_CASE("lost trace records are reported") {
  test::Screen screen;
  trace::Trace trace = test::small_trace();
  trace.lost_records = 12;
  CHECK(opened(screen, bytes_of(trace, screen.folder.path / "lost")).find("lost 12 records") != std::string::npos);
}

}  // namespace memtune::bad_files_test
