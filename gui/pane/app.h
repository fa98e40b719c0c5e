// The state that all panes share, and the frame around them. A pane is one function that draws into the current window
// and changes the state; it owns nothing but what it is worth to forget.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/trace/interval.h"
#include "gui/model/analysis.h"
#include "gui/model/compare_model.h"
#include "gui/model/plan_model.h"
#include "gui/model/run.h"
#include "gui/model/search.h"
#include "gui/model/view_state.h"
#include "gui/pane/lanes.h"
#include "gui/pane/theme.h"

namespace memtune::gui {

enum class Tab { timeline, compare, plan, findings };
inline const std::vector<std::string> kTabNames = {"timeline", "compare", "plan", "findings"};

// What another pane wants the timeline to show.
struct ShowRequest {
  std::optional<trace::Interval> range;  // nanoseconds of the trace
  trace::ValueId value;                  // selected, its trip lit up and fitted
  bool peak = false;
};

struct AppState {
  Run run;
  size_t trial = 0;                   // index into run.trials; none are there when run.trials is empty
  std::optional<size_t> other_trial;  // what `trial` is compared with
  Tab tab = Tab::timeline;
  Theme theme = Theme::dark;
  float scale = 1;                  // of the display
  int zoom_level = 0;               // on top of that, in steps of Ctrl + and Ctrl -
  std::optional<ShowRequest> show;  // taken by the timeline in its next frame
  std::string message;              // what went wrong last; shown until it is closed
  bool help = false;
  bool quit = false;        // the window closes after this frame
  ViewState view;           // of the timeline
  std::set<int32_t> ranks;  // of the trial that is shown
  Search search;            // in the current trial's trace
  bool search_open = false, search_focus = false;

  LaneFrame lanes;                // where the timeline's lanes were drawn last
  std::optional<HeldState> held;  // of the moment whose memory is told
  CompareState compare;
  PlanState plan;
  FindingsState findings;

  // What the frame did last, to see what has changed since.
  std::optional<Tab> shown_tab;
  std::optional<Theme> applied_theme;
  float applied_scale = 0;

  bool has_trial() const { return trial < run.trials.size(); }
  const Trial& current() const { return run.trials[trial]; }
};

// Both go to the timeline; `trial` is selected first.
void show_range(AppState& state, size_t trial, trace::Interval range);
void show_value(AppState& state, size_t trial, trace::ValueId value);

void select_trial(AppState& state, size_t trial);
// `event` of the current trace, and its value with it.
void select_event(AppState& state, uint32_t event);
// Of the selected value, the one that the selected event is part of; empty when none is selected.
Trip lit_trip(const AppState& state);
// Opens what is in `path` beside what is open, or instead of it. A bad path leaves `message`.
void open_path(AppState& state, const std::filesystem::path& path, bool beside = false);

// "memtune-run - memtune": what is open, for the window's title.
std::string window_title(const AppState& state);

// One frame: shortcuts, tabs, the pane. Between ImGui::NewFrame and Render.
void draw_app(AppState& state);

}  // namespace memtune::gui
