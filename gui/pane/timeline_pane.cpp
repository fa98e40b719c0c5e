#include "gui/pane/timeline_pane.h"

#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "gui/model/format.h"
#include "gui/pane/details.h"
#include "gui/pane/lanes.h"
#include "gui/pane/memory_track.h"
#include "gui/pane/shortcuts.h"
#include "gui/pane/trial_choice.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr float kDetailsWidth = 340, kRulerHeight = 24, kMinMemoryHeight = 150;

void take_request(AppState& state, const LoadedTrace& loaded) {
  if (!state.show) return;
  const ShowRequest show = *state.show;
  state.show.reset();
  if (show.range) state.view.fit(*show.range);
  if (show.peak) jump_to_peak(state);
  if (!show.value) return;
  const auto middle = static_cast<int64_t>((state.view.start_ns + state.view.end_ns) / 2);
  state.view.value = show.value;
  const ValueLifetime lifetime = lifetime_near(loaded.trace, loaded.timeline, state.view.value, middle);
  if (lifetime.empty()) return;
  select_event(state, lifetime.front());
  fit_selection(state);
}

void draw_search(AppState& state, const LoadedTrace& loaded) {
  ImGui::SameLine();
  ImGui::SetNextItemWidth(px(220));
  if (state.search_focus) ImGui::SetKeyboardFocusHere();
  state.search_focus = false;
  std::string text = state.search.text();
  const bool shift = ImGui::GetIO().KeyShift;
  const bool enter = ImGui::InputTextWithHint("##search", "search (Ctrl F)", &text,
                                              ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  if (text != state.search.text()) state.search.find(loaded.trace, text);
  if (enter) {
    step_search(state, !shift);
    state.search_focus = true;  // keeps the focus for the next Enter
  }
  if (text.empty()) return;
  ImGui::SameLine();
  const auto current = state.search.current();
  const std::string which = current ? format_count(*current + 1) + " of " : "";
  ImGui::TextDisabled("%s%s hits", which.c_str(), format_count(state.search.hits().size()).c_str());
}

void draw_toolbar(AppState& state, const LoadedTrace& loaded) {
  draw_search(state, loaded);
  ImGui::SameLine();
  const auto whole = static_cast<double>(loaded.timeline.whole.end - loaded.timeline.whole.start);
  const std::string text = format_time(std::min(state.view.span_ns(), whole)) + " of " + format_time(whole);
  const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(room, 0.0F));
  ImGui::TextDisabled("%s", text.c_str());
  if (loaded.problem.empty()) return;
  ImGui::PushStyleColor(ImGuiCol_Text, palette().warning);
  ImGui::TextWrapped("%s", loaded.problem.c_str());
  ImGui::PopStyleColor();
}

void handle_wheel(ViewState& view) {
  const ImGuiIO& io = ImGui::GetIO();
  const double base = io.KeyCtrl ? 1.05 : io.KeyShift ? 2.0 : 1.25;
  const double at = (view.cursor_ns - view.start_ns) / view.span_ns();
  if (io.MouseWheel != 0) view.zoom(std::pow(base, static_cast<double>(io.MouseWheel)), at);
  if (io.MouseWheelH != 0) view.pan(-0.1 * static_cast<double>(io.MouseWheelH));
}

// With Shift a drag marks a range, otherwise it moves the view.
void handle_drag(ViewState& view, const TimeAxis& axis) {
  const ImGuiIO& io = ImGui::GetIO();
  if (const ImVec2 from = io.MouseClickedPos[ImGuiMouseButton_Left];
      io.KeyShift && ImGui::IsMouseDragging(ImGuiMouseButton_Left) && from.x >= axis.left) {
    const auto time = [&](float x) { return static_cast<int64_t>(axis.time(std::clamp(x, axis.left, axis.right))); };
    view.marks = {time(from.x), time(io.MousePos.x)};
    return;
  }
  for (const ImGuiMouseButton button : {ImGuiMouseButton_Left, ImGuiMouseButton_Right}) {
    if (!ImGui::IsMouseDragging(button)) continue;
    const ImVec2 by = io.MouseDelta;
    view.pan(-static_cast<double>(by.x / (axis.right - axis.left)));
    view.scroll -= by.y;
  }
}

void select(AppState& state, const std::optional<Hovered>& hovered) {
  if (!hovered) {
    state.view.clear_selection();
  } else if (hovered->bar.count > 1) {
    state.view.fit({hovered->bar.start_ns, hovered->bar.end_ns});  // zooms into a merged bar
  } else {
    select_event(state, hovered->event);
  }
}

// Vertical lines through lanes and memory: the user's marks, the mouse.
void draw_time_lines(const AppState& state, const LaneFrame& frame, float ruler_top) {
  ImDrawList& list = *frame.list;
  const auto line = [&](double time_ns, ImU32 color, float width) {
    const float x = std::round(frame.axis.x(time_ns));
    list.AddLine({x, ruler_top}, {x, frame.bottom}, color, width);
    return x;
  };
  for (const int64_t mark : state.view.marks) line(static_cast<double>(mark), palette().accent, px(1.5F));
  if (state.view.memory_at_ns) line(static_cast<double>(*state.view.memory_at_ns), palette().faint_text, 1);
  if (frame.mouse.x < frame.axis.left) return;
  const float x = line(state.view.cursor_ns, with_alpha(palette().text, 0.35F), 1);
  const std::string text = format_time(state.view.cursor_ns, frame.axis.ns_per_pixel());
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  list.AddRectFilled({x + px(3), ruler_top}, {x + px(9) + size.x, ruler_top + size.y + px(2)}, palette().lane);
  list.AddText({x + px(6), ruler_top}, palette().text, text.c_str());
}

void draw_measure(const ViewState& view, const LaneFrame& frame, float ruler_top) {
  if (view.marks.size() < 2) return;
  const auto [first, last] = std::minmax(view.marks[0], view.marks[1]);
  const float x0 = frame.axis.x(static_cast<double>(first)), x1 = frame.axis.x(static_cast<double>(last));
  frame.list->AddRectFilled({x0, ruler_top}, {x1, frame.bottom}, with_alpha(palette().accent, 0.10F));
  const std::string text = format_time(static_cast<double>(last - first));
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  const float x = (x0 + x1 - size.x) / 2;
  frame.list->AddRectFilled({x - px(4), ruler_top}, {x + size.x + px(4), ruler_top + size.y + px(2)}, palette().accent,
                            px(3));
  frame.list->AddText({x, ruler_top + px(1)}, text_on(palette().accent), text.c_str());
}

struct CanvasPlace {
  ImVec2 at, size;
  float lanes_top, lanes_bottom;
};

CanvasPlace place_canvas(const LoadedTrace& loaded, const ViewState& view, float width) {
  const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
  const float top = at.y + px(kRulerHeight);
  const float most = std::max(px(40), room.y - px(kRulerHeight) - px(kMinMemoryHeight));
  return {at,
          {std::max(width, px(200)), std::max(room.y, px(120))},
          top,
          top + std::min(lanes_height(loaded.timeline, view.folded), most)};
}

// Draws lanes and memory, and handles the mouse.
void draw_canvas(AppState& state, const LoadedTrace& loaded, const ValueLifetime& lit, float width) {
  ViewState& view = state.view;
  const CanvasPlace place = place_canvas(loaded, view, width);
  ImGui::InvisibleButton("canvas", place.size, ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
  const bool hovered_canvas = ImGui::IsItemHovered(), active = ImGui::IsItemActive();

  LaneFrame& frame = state.lanes = {};
  frame.list = ImGui::GetWindowDrawList();
  frame.axis = {view.start_ns, view.end_ns, place.at.x + names_width(loaded.timeline), place.at.x + place.size.x};
  frame.left = place.at.x;
  frame.folded = view.folded;
  frame.bottom = place.at.y + place.size.y;
  frame.ruler_top = place.at.y;
  if (hovered_canvas) frame.mouse = ImGui::GetMousePos();
  view.cursor_ns =
      frame.mouse.x >= frame.axis.left ? frame.axis.time(frame.mouse.x) : (view.start_ns + view.end_ns) / 2;
  if (hovered_canvas) handle_wheel(view);
  if (active) handle_drag(view, frame.axis);
  frame.axis.start_ns = view.start_ns;
  frame.axis.end_ns = view.end_ns;
  const float hidden = lanes_height(loaded.timeline, view.folded) - (place.lanes_bottom - place.lanes_top);
  view.scroll = std::clamp(view.scroll, 0.0F, std::max(0.0F, hidden));

  frame.list->PushClipRect({frame.axis.left, place.at.y}, {frame.axis.right, frame.bottom}, true);
  draw_ruler(*frame.list, frame.axis, place.at.y + px(2), place.lanes_top, frame.bottom);
  frame.list->PopClipRect();
  frame.top = place.lanes_top - view.scroll;
  lay_out_lanes(loaded, frame);
  frame.list->PushClipRect({frame.left, place.lanes_top}, {frame.axis.right, place.lanes_bottom}, true);
  const auto hovered = draw_lanes(loaded, frame, lit);
  frame.list->PushClipRect({frame.axis.left, place.lanes_top}, {frame.axis.right, place.lanes_bottom}, true);
  draw_hits(loaded, frame, state.search);
  if (view.event) outline_event(loaded, frame, static_cast<uint32_t>(*view.event));
  draw_lifetime(loaded, frame, lit);
  frame.list->PopClipRect();
  frame.list->PopClipRect();

  LaneFrame below = frame;
  below.top = place.lanes_bottom + px(8);
  draw_memory(loaded, below);
  frame.list->PushClipRect({frame.axis.left, place.at.y}, {frame.axis.right, frame.bottom}, true);
  draw_time_lines(state, frame, place.at.y);
  draw_measure(view, frame, place.at.y);
  frame.list->PopClipRect();

  if (hovered && hovered_canvas && !active) draw_tooltip(loaded, *hovered);
  const bool over_lanes = frame.mouse.y >= place.lanes_top && frame.mouse.y < place.lanes_bottom;
  const std::optional<int32_t> named = over_lanes ? rank_named(loaded, frame) : std::nullopt;
  if (ImGui::IsItemHovered() && clicked()) {
    if (named) {
      view.fold_or_unfold(*named);
    } else if (frame.mouse.y < place.lanes_bottom) {
      select(state, hovered);
    } else {
      view.memory_at_ns = static_cast<int64_t>(view.cursor_ns);
    }
  }
  if (hovered_canvas && !named && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) fit_selection(state);
}

int64_t memory_time(const ViewState& view, const LoadedTrace& loaded) {
  const MemoryModel& memory = loaded.timeline.memory;
  if (view.memory_at_ns) return *view.memory_at_ns;
  if (view.event) return loaded.trace.events[*view.event].start_ns;
  return memory.empty() ? 0 : memory.times_ns[memory.peak];
}

void tell_memory(AppState& state, const LoadedTrace& loaded) {
  const int64_t time_ns = memory_time(state.view, loaded);
  if (!state.held || state.held->trial != state.trial || state.held->time_ns != time_ns)
    state.held = held_at(loaded, state.trial, time_ns);
}

void tell_kernels(AppState& state, const LoadedTrace& loaded) {
  const trace::TimeInterval range = chosen_range(state.view, loaded.trace).value_or(state.view.whole);
  if (!state.kernels || state.kernels->range.start != range.start || state.kernels->range.end != range.end)
    state.kernels = kernels_between(loaded.trace, range);
}

}  // namespace

void draw_timeline(AppState& state) {
  if (const auto chosen = choose_trial(state.run, "##trial", state.trial)) select_trial(state, *chosen);
  const LoadedTrace& loaded = state.current().load();
  take_request(state, loaded);
  draw_toolbar(state, loaded);
  if (loaded.timeline.rows.empty() && loaded.timeline.memory.empty()) {
    ImGui::TextDisabled("the trace holds no events");
    return;
  }
  const ValueLifetime lit = highlighted_lifetime(state);
  const float details = px(kDetailsWidth);
  draw_canvas(state, loaded, lit, ImGui::GetContentRegionAvail().x - details - px(8));
  ImGui::SameLine(0, px(8));
  ImGui::BeginChild("details", {details, 0});
  tell_memory(state, loaded);
  tell_kernels(state, loaded);
  draw_details(state, loaded, lit);
  ImGui::EndChild();
}

}  // namespace memtune::gui
