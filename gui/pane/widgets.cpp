#include "gui/pane/widgets.h"

#include "gui/pane/theme.h"

namespace memtune::gui {

void swatch(ImU32 color) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float size = ImGui::GetFontSize() * 0.62F, drop = (ImGui::GetTextLineHeight() - size) / 2;
  ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + drop}, {at.x + size, at.y + drop + size}, color, px(2));
  ImGui::Dummy({size, ImGui::GetTextLineHeight()});
  ImGui::SameLine(0, px(6));
}

void right_text(const std::string& text) {
  const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  ImGui::TextUnformatted(text.c_str());
}

void faint(const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, palette().faint_text);
  ImGui::TextWrapped("%s", text.c_str());
  ImGui::PopStyleColor();
}

bool clicked() {
  const ImGuiIO& io = ImGui::GetIO();
  return ImGui::IsMouseReleased(ImGuiMouseButton_Left) &&
         io.MouseDragMaxDistanceSqr[ImGuiMouseButton_Left] < io.MouseDragThreshold * io.MouseDragThreshold;
}

}  // namespace memtune::gui
