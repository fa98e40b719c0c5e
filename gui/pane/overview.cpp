#include "gui/pane/overview.h"

#include <algorithm>

#include "gui/pane/memory_track.h"

namespace memtune::gui {
namespace {

constexpr float kRulerHeight = 24, kMinHeight = 160, kMinMark = 3;

void draw_stretches(const LaneFrame& frame, std::span<const Stretched> stretches, float top) {
  for (const Stretched& each : stretches) {
    const float from = frame.axis.x(static_cast<double>(each.range.start));
    const float to = std::max(frame.axis.x(static_cast<double>(each.range.end)), from + px(kMinMark));
    frame.list->AddRectFilled({from, top}, {to, frame.bottom}, with_alpha(each.color, 0.22F));
    frame.list->AddRect({from - 1, top}, {to + 1, frame.bottom}, each.color, 0, px(1.2F));
  }
}

}  // namespace

bool draw_overview(const LoadedTrace& loaded, std::span<const Stretched> stretches) {
  const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
  const bool empty = loaded.timeline.rows.empty() && loaded.timeline.memory.empty();
  const float names = names_width(loaded.timeline);
  if (empty || room.y < px(kMinHeight) || room.x < 2 * names) return false;
  const bool clicked = ImGui::InvisibleButton("overview", room);
  const trace::TimeInterval& whole = loaded.timeline.whole;
  LaneFrame frame;
  frame.list = ImGui::GetWindowDrawList();
  frame.axis = {static_cast<double>(whole.start), static_cast<double>(whole.end), at.x + names, at.x + room.x};
  frame.left = at.x;
  frame.bottom = at.y + room.y;
  frame.top = at.y + px(kRulerHeight);
  frame.folded = folded_at_first(loaded.timeline);
  const float lanes_bottom =
      frame.top + std::min(lanes_height(loaded.timeline, frame.folded), (frame.bottom - frame.top) * 0.5F);
  draw_ruler(*frame.list, frame.axis, at.y + px(2), frame.top, frame.bottom);
  lay_out_lanes(loaded, frame);
  frame.list->PushClipRect({frame.left, frame.top}, {frame.axis.right, lanes_bottom}, true);
  draw_lanes(loaded, frame, {});
  frame.list->PopClipRect();
  LaneFrame below = frame;
  below.top = lanes_bottom + px(8);
  draw_memory(loaded, below);
  frame.list->PushClipRect({frame.axis.left, at.y}, {frame.axis.right, frame.bottom}, true);
  draw_stretches(frame, stretches, frame.top);
  frame.list->PopClipRect();
  return clicked;
}

}  // namespace memtune::gui
