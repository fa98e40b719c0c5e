#include "gui/pane/memory_track.h"

#include <algorithm>
#include <cmath>

#include "core/base/bytes.h"
#include "gui/model/format.h"
#include "gui/pane/theme.h"

namespace memtune::gui {
namespace {

constexpr float kColumn = 2;  // pixels

struct Scale {
  double top_bytes;
  float top, bottom;
  float y(int64_t bytes) const {
    return bottom - static_cast<float>(static_cast<double>(bytes) / top_bytes) * (bottom - top);
  }
};

// The scale includes the budget, unless that would flatten the curve.
Scale scale_of(const LoadedTrace& loaded, const LaneFrame& frame) {
  const MemoryModel& memory = loaded.timeline.memory;
  const int64_t peak = memory.allocated_bytes[memory.peak], budget = loaded.trace.budget_bytes;
  const int64_t most = budget / 3 > peak ? peak : std::max(peak, budget);
  return {1.12 * static_cast<double>(std::max<int64_t>(most, 1)), frame.top, frame.bottom};
}

void draw_scale(const LaneFrame& frame, const Scale& scale) {
  const double per_pixel = scale.top_bytes / static_cast<double>(scale.bottom - scale.top);
  double step = 1;
  while (step < per_pixel * static_cast<double>(px(34))) step *= 2;
  for (double tick = 0; tick < scale.top_bytes; tick += step) {
    const auto bytes = static_cast<int64_t>(tick);
    const float y = std::round(scale.y(bytes));
    frame.list->AddLine({frame.axis.left, y}, {frame.axis.right, y}, palette().grid);
    const std::string text = format_bytes(bytes);
    const float x = frame.axis.left - px(6) - ImGui::CalcTextSize(text.c_str()).x;
    frame.list->AddText({x, y - ImGui::GetFontSize() - 1}, palette().faint_text, text.c_str());
  }
}

// One layer of the stack. Columns with equal bounds become one rectangle.
class Layer {
 public:
  Layer(ImDrawList& list, ImU32 color) : list_(list), color_(color) {}
  ~Layer() { flush(); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  void add(float x0, float x1, float top, float bottom) {
    if (top != top_ || bottom != bottom_) {
      flush();
      x0_ = x0;
      top_ = top;
      bottom_ = bottom;
    }
    x1_ = x1;
  }

 private:
  void flush() {
    if (bottom_ - top_ > 0.2F) list_.AddRectFilled({x0_, top_}, {x1_, bottom_}, color_);
  }
  ImDrawList& list_;
  ImU32 color_;
  float x0_ = 0, x1_ = 0, top_ = 0, bottom_ = 0;
};

std::vector<Stack> stacks_of(const MemoryModel& memory, const TimeAxis& axis) {
  std::vector<Stack> stacks;
  const double width_ns = axis.ns_per_pixel() * static_cast<double>(kColumn);
  for (float x = axis.left; x < axis.right; x += kColumn) {
    const double start = axis.time(x);
    stacks.push_back(memory.greatest_between(static_cast<int64_t>(std::floor(start)),
                                             static_cast<int64_t>(std::ceil(start + width_ns))));
  }
  return stacks;
}

void draw_stacks(const MemoryModel& memory, const LaneFrame& frame, const Scale& scale) {
  const std::vector<Stack> stacks = stacks_of(memory, frame.axis);
  std::vector<int64_t> below(stacks.size(), 0);
  for (size_t owner = 0; owner <= memory.owners.size(); ++owner) {
    Layer layer(*frame.list, owner_color(memory, owner));
    for (size_t i = 0; i < stacks.size(); ++i) {
      const bool rest = owner == memory.owners.size();
      const int64_t above = below[i] + (rest ? stacks[i].work_space_bytes() : stacks[i].owned_bytes[owner]);
      const float x = frame.axis.left + static_cast<float>(i) * kColumn;
      layer.add(x, std::min(x + kColumn, frame.axis.right), std::round(scale.y(above)), std::round(scale.y(below[i])));
      below[i] = above;
    }
  }
}

void draw_budget(const LoadedTrace& loaded, const LaneFrame& frame, const Scale& scale) {
  const int64_t budget = loaded.trace.budget_bytes;
  const float y = std::round(scale.y(budget));
  if (budget <= 0 || y < frame.top) return;
  const float dash = px(7);
  for (float x = frame.axis.left; x < frame.axis.right; x += 2 * dash)
    frame.list->AddLine({x, y}, {std::min(x + dash, frame.axis.right), y}, palette().budget, px(1.5F));
  const std::string text = "budget " + format_bytes(budget);
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  const ImVec2 at(frame.axis.right - size.x - px(6), y - size.y - px(2));
  frame.list->AddRectFilled({at.x - px(3), at.y}, {at.x + size.x + px(3), at.y + size.y},
                            with_alpha(palette().lane, 0.75F));
  frame.list->AddText(at, palette().budget, text.c_str());
}

void draw_peak(const MemoryModel& memory, const LaneFrame& frame, const Scale& scale) {
  const int64_t time = memory.times_ns[memory.peak], bytes = memory.allocated_bytes[memory.peak];
  const float x = frame.axis.x(static_cast<double>(time)), y = scale.y(bytes), size = px(5);
  if (x < frame.axis.left || x > frame.axis.right) return;
  frame.list->AddLine({x, y}, {x, frame.bottom}, with_alpha(palette().text, 0.5F));
  frame.list->AddTriangleFilled({x, y - 1}, {x - size, y - 2 * size}, {x + size, y - 2 * size}, palette().text);
  const std::string text = "peak " + format_bytes(bytes);
  const ImVec2 extent = ImGui::CalcTextSize(text.c_str());
  const bool left = x + extent.x + px(12) > frame.axis.right;
  const ImVec2 at(left ? x - extent.x - px(8) : x + px(8), y - extent.y - px(1));
  frame.list->AddRectFilled({at.x - px(2), at.y}, {at.x + extent.x + px(2), at.y + extent.y},
                            with_alpha(palette().lane, 0.7F));
  frame.list->AddText(at, palette().text, text.c_str());
}

}  // namespace

ImU32 owner_color(const MemoryModel& model, size_t index) {
  if (index >= model.owners.size()) return with_alpha(palette().faint_text, 0.55F);
  switch (model.owners[index].owner.kind) {
    case trace::MemoryOwnerKind::parameters: return series_color(10);
    case trace::MemoryOwnerKind::optimizer: return series_color(4);
    case trace::MemoryOwnerKind::inputs: return series_color(9);
    case trace::MemoryOwnerKind::prefetched: return series_color(2);
    case trace::MemoryOwnerKind::gradients: return series_color(1);
    case trace::MemoryOwnerKind::block:
      return with_alpha(series_color(6), index % 2 == 0 ? 1 : 0.72F);  // neighbours differ
    case trace::MemoryOwnerKind::outside:
    case trace::MemoryOwnerKind::work_space: break;
  }
  return series_color(3);
}

void draw_memory(const LoadedTrace& loaded, const LaneFrame& frame) {
  const MemoryModel& memory = loaded.timeline.memory;
  if (memory.empty()) {
    frame.list->AddText({frame.axis.left + px(8), frame.top + px(8)}, palette().faint_text,
                        "the trace holds no memory samples");
    return;
  }
  const Scale scale = scale_of(loaded, frame);
  draw_scale(frame, scale);
  frame.list->PushClipRect({frame.axis.left, frame.top}, {frame.axis.right, frame.bottom}, true);
  // Nothing is known before and after the trace.
  const trace::TimeInterval& whole = loaded.timeline.whole;
  frame.list->PushClipRect({frame.axis.x(static_cast<double>(whole.start)), frame.top},
                           {frame.axis.x(static_cast<double>(whole.end)), frame.bottom}, true);
  draw_stacks(memory, frame, scale);
  frame.list->PopClipRect();
  draw_budget(loaded, frame, scale);
  draw_peak(memory, frame, scale);
  frame.list->PopClipRect();
}

}  // namespace memtune::gui
