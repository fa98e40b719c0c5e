#include "gui/pane/trial_choice.h"

namespace memtune::gui {

std::optional<size_t> choose_trial(const Run& run, const char* id, std::optional<size_t> shown, bool with_trace) {
  std::optional<size_t> chosen;
  ImGui::SetNextItemWidth(px(260));
  if (!ImGui::BeginCombo(id, shown && *shown < run.trials.size() ? run.trials[*shown].label().c_str() : "choose one"))
    return chosen;
  if (ImGui::IsKeyPressed(ImGuiKey_Escape)) ImGui::CloseCurrentPopup();
  for (size_t i = 0; i < run.trials.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    ImGui::BeginDisabled(with_trace && !run.trials[i].has_trace());
    if (ImGui::Selectable(run.trials[i].label().c_str(), shown == i)) chosen = i;
    ImGui::EndDisabled();
    ImGui::PopID();
  }
  ImGui::EndCombo();
  return chosen;
}

}  // namespace memtune::gui
