// The state that all panes share, and the frame around them. A pane is one function that draws into the current window
// and changes the state. It keeps no data of its own except what may be lost.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/record/trace/time_interval.h"
#include "gui/model/analysis.h"
#include "gui/model/compare_model.h"
#include "gui/model/kernel_table.h"
#include "gui/model/plan_model.h"
#include "gui/model/run.h"
#include "gui/model/search.h"
#include "gui/model/view_state.h"
#include "gui/pane/lanes.h"
#include "gui/pane/theme.h"

namespace memtune::gui {

enum class Tab { timeline, compare, plan, findings };
inline const std::vector<std::string> kTabNames = {"timeline", "compare", "plan", "findings"};

// A request of another pane to the timeline.
struct ShowRequest {
  std::optional<trace::TimeInterval> range;  // nanoseconds of the trace
  trace::ValueId value;                      // to select, with its lifetime highlighted and fitted
  bool peak = false;
};

struct AppState {
  Run run;
  size_t trial = 0;                   // index into run.trials, which may be empty
  std::optional<size_t> other_trial;  // compared with `trial`
  Tab tab = Tab::timeline;
  Theme theme = Theme::dark;
  float scale = 1;                  // of the display
  int zoom_level = 0;               // steps of Ctrl + and Ctrl -, on top of `scale`
  std::optional<ShowRequest> show;  // handled by the timeline in its next frame
  std::string message;              // the last error, shown until it is closed
  bool help = false;
  bool quit = false;        // the window closes after this frame
  ViewState view;           // of the timeline
  std::set<int32_t> ranks;  // of the shown trial
  Search search;            // in the current trial's trace
  bool search_open = false, search_focus = false;

  LaneFrame lanes;                     // position of the timeline's lanes in the last frame
  std::optional<HeldState> held;       // of the moment whose memory is shown
  std::optional<KernelTable> kernels;  // between the marks, or of the whole trace
  bool kernels_by_module = false;
  CompareState compare;
  PlanState plan;
  FindingsState findings;

  // State of the last frame, to detect changes.
  std::optional<Tab> shown_tab;
  std::optional<Theme> applied_theme;
  float applied_scale = 0;

  bool has_trial() const { return trial < run.trials.size(); }
  const Trial& current() const { return run.trials[trial]; }
};

// Both select `trial` and switch to the timeline.
void show_range(AppState& state, size_t trial, trace::TimeInterval range);
void show_value(AppState& state, size_t trial, trace::ValueId value);

void select_trial(AppState& state, size_t trial);
// Selects `event` of the current trace, and its tensor.
void select_event(AppState& state, uint32_t event);
// The selected tensor's lifetime around the selected event; empty if no tensor is selected.
ValueLifetime highlighted_lifetime(const AppState& state);
// Opens `path`, in addition to the open runs if `beside`, otherwise instead of them. A bad path sets `message`.
void open_path(AppState& state, const std::filesystem::path& path, bool beside = false);

// The window's title, with the open runs: "memtune-run - memtune".
std::string window_title(const AppState& state);

// Draws one frame: shortcuts, tabs, the pane. Call between ImGui::NewFrame and Render.
void draw_app(AppState& state);

}  // namespace memtune::gui
