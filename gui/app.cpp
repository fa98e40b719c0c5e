#include "gui/app.h"

#include <algorithm>

#include "core/base/error.h"
#include "gui/compare_pane.h"
#include "gui/findings_pane.h"
#include "gui/plan_pane.h"
#include "gui/timeline_pane.h"

namespace memtune::gui {
namespace {

void draw_pane(AppState& state) {
  switch (state.tab) {
    case Tab::timeline: return draw_timeline(state);
    case Tab::compare: return draw_compare(state);
    case Tab::plan: return draw_plan(state);
    case Tab::findings: return draw_findings(state);
  }
}

}  // namespace

void select_trial(AppState& state, size_t trial) {
  if (trial >= state.run.trials.size()) return;
  state.trial = trial;
  state.view.reset(state.current().load().timeline.whole);
}

void show_range(AppState& state, size_t trial, trace::Interval range) {
  if (trial != state.trial) select_trial(state, trial);
  state.tab = Tab::timeline;
  state.show = ShowRequest{.range = range, .value = {}, .peak = false};
}

void show_value(AppState& state, size_t trial, uint32_t value) {
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
  state.message.clear();
  select_trial(state, state.run.first_trial());
} catch (const std::exception& error) {
  state.message = error.what();
}

void draw_app(AppState& state) {
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport.WorkPos);
  ImGui::SetNextWindowSize(viewport.WorkSize);
  ImGui::Begin("memtune", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus);
  if (ImGui::BeginTabBar("tabs")) {
    for (size_t i = 0; i < kTabNames.size(); ++i) {
      const auto tab = static_cast<Tab>(i);
      if (ImGui::TabItemButton(kTabNames[i].c_str())) state.tab = tab;
    }
    ImGui::EndTabBar();
  }
  draw_pane(state);
  ImGui::End();
}

}  // namespace memtune::gui
