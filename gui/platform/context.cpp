#include "gui/platform/context.h"

#include <imgui.h>
#include <implot.h>

#include "gui/pane/theme.h"

namespace memtune::gui {

Context::Context() {
  ImGui::CreateContext();
  ImPlot::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // the window's place is stored elsewhere, and nothing else can be moved
  io.ConfigErrorRecoveryEnableAssert = true;
  add_fonts();
}

Context::~Context() {
  ImPlot::DestroyContext();
  ImGui::DestroyContext();
}

bool had_input() {
  const ImGuiIO& io = ImGui::GetIO();
  bool input = io.MouseDelta.x != 0 || io.MouseDelta.y != 0 || io.MouseWheel != 0 || io.WantTextInput;
  for (const bool down : io.MouseDown) input |= down;
  for (int key = ImGuiKey_NamedKey_BEGIN; key < ImGuiKey_NamedKey_END; ++key)
    input |= ImGui::IsKeyDown(static_cast<ImGuiKey>(key));
  return input;
}

}  // namespace memtune::gui
