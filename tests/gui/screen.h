// The viewer without a display. It uses ImGui's null backend, puts input into its queue and discards the frames.
#pragma once

#include <imgui.h>
#include <imgui_impl_null.h>
#include <imgui_internal.h>

#include <string>

#include "core/record/trace/file.h"
#include "gui/pane/app.h"
#include "gui/platform/context.h"
#include "tests/gui/traces.h"
#include "tests/support/run_program.h"

namespace memtune::test {

class Screen {
 public:
  Screen() {
    ImGui_ImplNull_Init();
    ImGui::GetIO().ConfigInputTrickleEventQueue = true;
  }
  ~Screen() { ImGui_ImplNull_Shutdown(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Writes the trace to a file and opens it.
  void open(const trace::Trace& trace) {
    const std::filesystem::path path = folder.path / "trace.mttrace";
    trace::write_trace(path, trace);
    gui::open_path(state, path);
    frames(3);
  }

  void frames(int count = 1) {
    for (int i = 0; i < count; ++i) {
      begin_frame();
      gui::draw_app(state);
      end_frame();
    }
  }

  // All text that the widgets of one frame draw, from ImGui's log.
  std::string words() {
    begin_frame();
    ImGui::LogToClipboard();
    gui::draw_app(state);
    ImGui::LogFinish();
    end_frame();
    return ImGui::GetClipboardText();
  }

  // Presses and releases a key with its modifiers, in separate frames like a person.
  void press(ImGuiKeyChord chord) {
    ImGuiIO& io = ImGui::GetIO();
    const auto modifiers = {ImGuiMod_Ctrl, ImGuiMod_Shift};
    for (const ImGuiKey modifier : modifiers)
      if (chord & modifier) io.AddKeyEvent(modifier, true);
    frames();
    const auto key = static_cast<ImGuiKey>(chord & ~ImGuiMod_Mask_);
    io.AddKeyEvent(key, true);
    frames(2);
    io.AddKeyEvent(key, false);
    frames();
    for (const ImGuiKey modifier : modifiers)
      if (chord & modifier) io.AddKeyEvent(modifier, false);
    frames(2);
  }

  void type(const std::string& text) {
    ImGui::GetIO().AddInputCharactersUTF8(text.c_str());
    frames(static_cast<int>(text.size()) + 2);
  }

  void point(float x, float y) {
    ImGui::GetIO().AddMousePosEvent(x, y);
    frames(2);
  }
  void click() {
    button(true);
    button(false);
  }
  void button(bool down) {
    ImGui::GetIO().AddMouseButtonEvent(0, down);
    frames(2);
  }
  void wheel(float by) {
    ImGui::GetIO().AddMouseWheelEvent(0, by);
    frames(2);
  }

  // The position of an event of the shown trace, in pixels.
  ImVec2 place_of(size_t event) const {
    const gui::LoadedTrace& loaded = state.current().load();
    const size_t row = loaded.timeline.row_of_event[event];
    const trace::TraceEvent& what = loaded.trace.events[event];
    const double middle = (static_cast<double>(what.start_ns) + static_cast<double>(what.end_ns)) / 2;
    return {state.lanes.axis.x(middle), state.lanes.row_y[row] + state.lanes.row_height[row] / 2};
  }
  // The position of a tab, in pixels.
  static ImVec2 place_of(gui::Tab tab) {
    const ImGuiTabBar& bar = *ImGui::GetCurrentContext()->TabBars.GetByIndex(0);
    const ImGuiTabItem& item = bar.Tabs[static_cast<int>(tab)];
    return {bar.BarRect.Min.x + item.Offset + item.Width / 2, bar.BarRect.GetCenter().y};
  }
  // The number of rectangles of exactly this color in the last frame, left of `right`.
  static size_t rectangles(ImU32 color, float right = 1e9F) {
    size_t vertices = 0;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists)
      for (const ImDrawVert& vertex : list->VtxBuffer) vertices += vertex.col == color && vertex.pos.x <= right ? 1 : 0;
    return vertices / 4;
  }
  size_t find_event(trace::EventKind kind, int which = 0) const {
    const auto& events = state.current().load().trace.events;
    size_t i = 0;
    while (events[i].kind != kind || which-- > 0) ++i;
    return i;
  }

  gui::AppState state;
  ScratchFolder folder;
  ImVec2 size{1600, 900};

 private:
  void begin_frame() {
    ImGui_ImplNull_NewFrame();
    ImGui::GetIO().DisplaySize = size;
    ImGui::NewFrame();
  }
  void end_frame() {
    ImGui::Render();
    ImGui_ImplNullRender_RenderDrawData(ImGui::GetDrawData());
  }

  gui::Context context_;
};

}  // namespace memtune::test
