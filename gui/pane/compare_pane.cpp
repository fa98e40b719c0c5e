#include "gui/pane/compare_pane.h"

#include <algorithm>

#include "gui/pane/overlay_view.h"
#include "gui/pane/pareto_plot.h"
#include "gui/pane/sweep_table.h"

namespace memtune::gui {
namespace {

// The reference, if it has a trace; otherwise any other trial with a trace.
std::optional<size_t> usual_other(const AppState& state) {
  std::optional<size_t> other;
  for (size_t i = 0; i < state.run.trials.size(); ++i) {
    const Trial& trial = state.run.trials[i];
    if (i == state.trial || !trial.has_trace()) continue;
    const bool reference = trial.row().measurement.strategy == state.run.reports[trial.run()].reference;
    if (!other || reference) other = i;
    if (reference) break;
  }
  return other;
}

}  // namespace

void draw_compare(AppState& state) {
  if (!state.other_trial) state.other_trial = usual_other(state);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float top = std::max(room.y * 0.46F, px(150));
  ImGui::BeginChild("table", {room.x * 0.6F, top});
  draw_sweep_table(state);
  ImGui::EndChild();
  ImGui::SameLine(0, px(10));
  ImGui::BeginChild("scatter", {0, top});
  draw_pareto(state);
  ImGui::EndChild();
  ImGui::BeginChild("overlay");
  draw_overlay(state);
  ImGui::EndChild();
}

}  // namespace memtune::gui
