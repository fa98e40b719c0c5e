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

}  // namespace memtune::gui
