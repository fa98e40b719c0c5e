#include "gui/pane/app.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "gui/pane/compare_pane.h"
#include "gui/pane/findings_pane.h"
#include "gui/pane/plan_pane.h"
#include "gui/pane/shortcuts.h"
#include "gui/pane/timeline_pane.h"

namespace memtune::gui {
namespace {

constexpr float kZoomStep = 1.1F;  // per Ctrl +
constexpr const char* kTabTitles[] = {"Timeline", "Compare", "Plan", "Findings"};

void draw_pane(AppState& state) {
  switch (state.tab) {
    case Tab::timeline: return draw_timeline(state);
    case Tab::compare: return draw_compare(state);
    case Tab::plan: return draw_plan(state);
    case Tab::findings: return draw_findings(state);
  }
}

void draw_tabs(AppState& state) {
  if (!ImGui::BeginTabBar("tabs")) return;
  for (size_t i = 0; i < kTabNames.size(); ++i) {
    const auto tab = static_cast<Tab>(i);
    // ImGui must be informed once of a tab chosen elsewhere; otherwise ImGui's own choice counts.
    const bool tell = state.tab == tab && state.shown_tab != tab;
    if (ImGui::BeginTabItem(kTabTitles[i], nullptr, tell ? ImGuiTabItemFlags_SetSelected : 0)) {
      if (state.tab == state.shown_tab) state.tab = tab;
      ImGui::EndTabItem();
    }
  }
  state.shown_tab = state.tab;
  ImGui::EndTabBar();
}

void draw_message(AppState& state) {
  if (state.message.empty()) return;
  ImGui::PushStyleColor(ImGuiCol_Text, palette().bad);
  ImGui::TextWrapped("%s", state.message.c_str());
  ImGui::PopStyleColor();
  ImGui::SameLine();
  if (ImGui::SmallButton("close")) state.message.clear();
}

void draw_welcome() {
  ImGui::TextUnformatted("Nothing is open.");
  ImGui::TextDisabled("Drop the folder of a sweep or a trace file here, or start with: memtune view RUN");
}

void draw_help(AppState& state) {
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport.GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::Begin("Keys", &state.help,
               ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings);
  if (ImGui::BeginTable("keys", 2, ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX)) {
    for (const KeyHelp& key : key_help()) {
      ImGui::TableNextColumn();
      ImGui::TextUnformatted(key.keys);
      ImGui::TableNextColumn();
      ImGui::TextDisabled("%s", key.does);
    }
    ImGui::EndTable();
  }
  ImGui::End();
}

}  // namespace

void select_trial(AppState& state, size_t trial) {
  if (trial >= state.run.trials.size()) return;
  state.trial = trial;
  state.held.reset();
  state.kernels.reset();
  state.search.find(state.current().load().trace, state.search.text());
  const TimelineModel& timeline = state.current().load().timeline;
  const std::set<int32_t> ranks = ranks_of(timeline), folded = state.view.folded;
  state.view.reset(timeline.whole);
  // If the next trial has the same ranks, they stay folded.
  state.view.folded = std::exchange(state.ranks, ranks) == ranks ? folded : folded_at_first(timeline);
}

void select_event(AppState& state, uint32_t event) {
  state.view.event = event;
  const LoadedTrace& loaded = state.current().load();
  const uint32_t track = loaded.trace.events[event].track;
  state.view.value = loaded.trace.events[event].value;
  for (const Lane& lane : loaded.timeline.lanes)  // unfolds the rank, to make the event visible
    if (lane.track == track && !lane.stays) state.view.folded.erase(lane.rank);
}

ValueLifetime highlighted_lifetime(const AppState& state) {
  if (!state.has_trial() || !state.view.value || !state.view.event) return {};
  const LoadedTrace& loaded = state.current().load();
  return lifetime_near(loaded.trace, loaded.timeline, state.view.value,
                       loaded.trace.events[*state.view.event].start_ns);
}

void show_range(AppState& state, size_t trial, trace::TimeInterval range) {
  if (trial != state.trial) select_trial(state, trial);
  state.tab = Tab::timeline;
  state.show = ShowRequest{.range = range, .value = {}, .peak = false};
}

void show_value(AppState& state, size_t trial, trace::ValueId value) {
  if (trial != state.trial) select_trial(state, trial);
  state.tab = Tab::timeline;
  state.show = ShowRequest{.range = {}, .value = value, .peak = false};
}

void open_path(AppState& state, const std::filesystem::path& path, bool beside) try {
  Run opened;
  Run& run = beside ? state.run : opened;
  const size_t before = run.trials.size();
  run.add(path);
  if (beside) {
    state.other_trial = before;
    return;
  }
  state.run = std::move(opened);
  state.other_trial.reset();
  state.compare = {};
  state.plan = {};
  state.findings = {};
  state.message.clear();
  select_trial(state, state.run.first_trial());
} catch (const std::exception& error) {
  state.message = error.what();
}

std::string window_title(const AppState& state) {
  std::vector<std::string> names;
  for (const std::filesystem::path& path : state.run.paths) {
    const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
    names.push_back((whole.has_filename() ? whole : whole.parent_path()).filename().string());
  }
  return names.empty() ? "memtune" : join(names, ", ") + " - memtune";
}

void draw_app(AppState& state) {
  if (const float scale = state.scale * std::pow(kZoomStep, static_cast<float>(state.zoom_level));
      state.theme != state.applied_theme || scale != state.applied_scale) {
    apply_theme(state.theme, scale);
    state.applied_theme = state.theme;
    state.applied_scale = scale;
  }
  handle_keys(state);
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport.WorkPos);
  ImGui::SetNextWindowSize(viewport.WorkSize);
  ImGui::Begin("memtune", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoBackground);
  draw_tabs(state);
  draw_message(state);
  state.has_trial() ? draw_pane(state) : draw_welcome();
  ImGui::End();
  if (state.help) draw_help(state);
}

}  // namespace memtune::gui
