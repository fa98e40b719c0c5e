// memtune-viewer-bench [EVENTS]: measures how long a large trace takes to open and a frame to draw. Without a GPU the
// frames are drawn in software.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/record/trace/file.h"
#include "gui/pane/app.h"
#include "gui/platform/context.h"
#include "gui/platform/offscreen.h"
#include "tests/gui/traces.h"
#include "tests/support/run_program.h"

namespace {

using namespace memtune;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Median and slowest of 60 frames, after 6 warm-up frames. `step` moves the view between frames.
void measure_frames(
    const char* what, gui::AppState& state, gui::Offscreen& screen,
    void (*step)(gui::ViewState&) = [](gui::ViewState&) {}) {
  std::vector<double> times;
  for (int i = 0; i < 66; ++i) {
    step(state.view);
    const auto start = Clock::now();
    screen.frame([&] { gui::draw_app(state); });
    if (i >= 6) times.push_back(ms_since(start));
  }
  std::sort(times.begin(), times.end());
  std::printf("%-34s %6.1f ms median %6.1f ms slowest %8d triangles\n", what, times[times.size() / 2], times.back(),
              ImGui::GetIO().MetricsRenderIndices / 3);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t events = argc > 1 ? static_cast<size_t>(std::atoll(argv[1])) : 1'000'000;
  const test::ScratchFolder folder;
  const auto path = folder.path / "big.mttrace";
  trace::write_trace(path, test::big_trace(events));
  std::printf("%zu events, %.0f MB\n", events, static_cast<double>(std::filesystem::file_size(path)) / 1e6);

  const gui::Context context;
  gui::AppState state;
  const auto start = Clock::now();
  gui::open_path(state, path);
  std::printf("%-34s %6.0f ms\n", "opened", ms_since(start));

  gui::Offscreen screen(1600, 900);
  const auto first = Clock::now();
  screen.frame([&] { gui::draw_app(state); });
  std::printf("%-34s %6.0f ms\n", "first frame", ms_since(first));
  measure_frames("all of it", state, screen);
  gui::show_value(state, 0, trace::ValueId(3));
  measure_frames("all of it, a trip lit up", state, screen, [](gui::ViewState& view) { view.fit_all(); });
  state.view.clear_selection();
  measure_frames("zooming in", state, screen, [](gui::ViewState& view) { view.zoom(1.15, 0.4); });
  state.view.fit_all();
  state.view.zoom(100, 0.5);
  measure_frames("a hundredth, moving", state, screen, [](gui::ViewState& view) { view.pan(0.01); });
  state.search.find(state.current().load().trace, "kernel");
  state.view.fit_all();
  measure_frames("all of it, every kernel found", state, screen);
}
