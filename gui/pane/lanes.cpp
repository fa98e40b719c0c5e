#include "gui/pane/lanes.h"

#include <algorithm>
#include <cmath>

#include "gui/model/format.h"
#include "gui/pane/theme.h"

namespace memtune::gui {
namespace {

constexpr float kRowHeight = 20, kThinRowHeight = 14, kLaneGap = 5;
constexpr float kFaded = 0.28F;  // opacity of events outside the highlighted lifetime

bool thin(const TimelineModel& model, const Lane& lane, size_t row) {
  const SpanRow& spans = model.rows[row];
  return row > lane.first_row || spans.busy_before_ns.back() == 0;  // nested spans, and moments
}

bool is_shown(const LaneFrame& frame, size_t row) { return frame.row_height[row] > 0; }

struct Box {
  float x0, y0, x1, y1;
};

Box box_of(const LaneFrame& frame, size_t row, double start_ns, double end_ns) {
  const float x0 = frame.axis.x(start_ns), x1 = frame.axis.x(end_ns), y = frame.row_y[row];
  // A line in the background color separates neighbours that are wide enough.
  const float right = x1 - x0 > px(4) ? x1 - 1 : std::max(x1, x0 + (start_ns == end_ns ? px(2) : 1));
  return {x0, y, right, y + frame.row_height[row] - 1};
}

bool inside(const Box& box, ImVec2 point) {
  return point.x >= box.x0 - 1 && point.x <= box.x1 + 1 && point.y >= box.y0 && point.y <= box.y1;
}

void label(const LaneFrame& frame, const Box& box, const std::string& text, ImU32 color) {
  const float left = std::max(box.x0, frame.axis.left) + px(3), right = std::min(box.x1, frame.axis.right) - px(2);
  if (right - left < px(22)) return;
  const float size = std::min(ImGui::GetFontSize(), (box.y1 - box.y0) * 0.95F);
  const ImVec4 clip(left, box.y0, right, box.y1);
  const float y = std::floor((box.y0 + box.y1 - size) / 2);
  frame.list->AddText(nullptr, size, {left, y}, color, text.c_str(), nullptr, 0, &clip);
}

class LaneDrawing {
 public:
  LaneDrawing(const LoadedTrace& loaded, const LaneFrame& frame, const ValueLifetime& lit)
      : trace_(loaded.trace), model_(loaded.timeline), frame_(frame), lit_(lit) {}

  std::optional<Hovered> draw() {
    bool striped = false;
    for (size_t lane = 0; lane < model_.lanes.size(); ++lane) {
      if (!shown(model_.lanes[lane], frame_.folded)) continue;
      striped = !striped;
      if (frame_.lane_y[lane + 1] < frame_.list->GetClipRectMin().y ||
          frame_.lane_y[lane] > frame_.list->GetClipRectMax().y)
        continue;
      draw_ground(lane, striped);
      for (size_t i = 0; i < model_.lanes[lane].rows; ++i) draw_row(model_.lanes[lane].first_row + i);
    }
    return hovered_;
  }

 private:
  void draw_ground(size_t lane, bool striped) {
    const float top = frame_.lane_y[lane], bottom = frame_.lane_y[lane + 1];
    if (striped)
      frame_.list->AddRectFilled({frame_.left, top}, {frame_.axis.right, bottom}, with_alpha(palette().grid, 0.25F));
    const ImVec4 clip(frame_.left, top, frame_.axis.left - px(6), bottom);
    const size_t row = model_.lanes[lane].first_row;
    const float y = frame_.row_y[row] + (frame_.row_height[row] - ImGui::GetFontSize()) / 2 - 1;
    const std::string name = fold_mark(lane) + model_.lanes[lane].name;
    frame_.list->AddText(nullptr, 0, {frame_.left + px(6), y}, palette().text, name.c_str(), nullptr, 0, &clip);
  }

  // Prefix of a rank's first name.
  std::string fold_mark(size_t lane) const {
    const int32_t rank = model_.lanes[lane].rank;
    if (rank < 0) return "";
    if (frame_.folded.contains(rank)) return "+ ";
    return lane == 0 || model_.lanes[lane - 1].rank != rank ? "- " : "  ";
  }

  void draw_row(size_t row) {
    frame_.list->PushClipRect({frame_.axis.left, frame_.row_y[row]},
                              {frame_.axis.right, frame_.row_y[row] + frame_.row_height[row]}, true);
    const SpanRow& spans = model_.rows[row];
    for (const Bar& bar : visible_bars(spans, frame_.axis.start_ns, frame_.axis.end_ns, frame_.axis.ns_per_pixel()))
      draw_bar(row, bar);
    frame_.list->PopClipRect();
  }

  void draw_bar(size_t row, const Bar& bar) {
    const uint32_t index = model_.rows[row].events[bar.first];
    const Box box = box_of(frame_, row, static_cast<double>(bar.start_ns), static_cast<double>(bar.end_ns));
    if (inside(box, frame_.mouse)) hovered_ = Hovered{row, bar, index};
    const float shade = lit_.empty() ? 1 : kFaded;
    const trace::TraceEvent& event = trace_.events[index];
    if (bar.count > 1) {
      const bool moments = event.start_ns == event.end_ns;
      const float busy = moments ? 0.8F : 0.2F + 0.7F * static_cast<float>(bar.busy);
      const ImU32 color = with_alpha(kind_color(event.kind), busy * shade);
      frame_.list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, color);
      if (!moments) label(frame_, box, "\u00d7" + format_count(bar.count), palette().text);
      return;
    }
    const ImU32 color = event_color(event);
    frame_.list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, with_alpha(color, shade));
    const ImU32 ink = lit_.empty() ? text_on(color) : palette().faint_text;
    label(frame_, box, trace_.names[event.name], ink);
  }

  const trace::Trace& trace_;
  const TimelineModel& model_;
  const LaneFrame& frame_;
  const ValueLifetime& lit_;
  std::optional<Hovered> hovered_;
};

// Where the tensor was between two events: "on disk 158 ms"; "" if it was not offloaded.
std::string stay(const trace::TraceEvent& before, const trace::TraceEvent& after) {
  const bool disk = before.kind == trace::EventKind::disk_write;
  if (!disk && before.kind != trace::EventKind::copy_out && before.kind != trace::EventKind::disk_read) return "";
  if (after.kind == trace::EventKind::disk_write || after.kind == trace::EventKind::copy_out) return "";
  const int64_t length = after.start_ns - before.end_ns;
  return length <= 0 ? "" : (disk ? "on disk " : "on host ") + format_time(static_cast<double>(length));
}

void draw_stay(const LaneFrame& frame, ImVec2 from, ImVec2 to, const std::string& text) {
  const ImVec2 size = ImGui::CalcTextSize(text.c_str());
  if (text.empty() || to.x - from.x < size.x + px(24)) return;
  const ImVec2 at((from.x + to.x - size.x) / 2, (from.y + to.y - size.y) / 2);
  frame.list->AddRectFilled({at.x - px(4), at.y - 1}, {at.x + size.x + px(4), at.y + size.y + 1}, palette().lane,
                            px(3));
  frame.list->AddText(at, palette().text, text.c_str());
}

void draw_arrow(const LaneFrame& frame, ImVec2 from, ImVec2 to) {
  const ImU32 color = palette().selection;
  const float bend = std::max(px(12), std::abs(to.x - from.x) * 0.4F);
  frame.list->AddBezierCubic(from, {from.x + bend, from.y}, {to.x - bend, to.y}, to, with_alpha(color, 0.85F),
                             px(1.6F));
  const float head = px(5);
  frame.list->AddTriangleFilled(to, {to.x - head, to.y - head * 0.7F}, {to.x - head, to.y + head * 0.7F}, color);
}

}  // namespace

ImU32 event_color(const trace::TraceEvent& event) {
  if (event.kind == trace::EventKind::region) {
    if (event.region.kind == trace::TraceRegionLevel::step) return kind_color(event.kind);
    switch (event.region.pass) {
      case trace::Pass::forward: return series_color(0);
      case trace::Pass::backward: return series_color(1);
      case trace::Pass::recompute: return series_color(4);
      case trace::Pass::optimizer: return series_color(3);
    }
  }
  if (event.kind == trace::EventKind::kernel || event.kind == trace::EventKind::op) return series_color(event.name * 5);
  return kind_color(event.kind);
}

float names_width(const TimelineModel& model) {
  float width = px(150);
  for (const Lane& lane : model.lanes) {
    const std::string name = (lane.rank < 0 ? "" : "+ ") + lane.name;
    width = std::max(width, ImGui::CalcTextSize(name.c_str()).x + px(18));
  }
  return width;
}

void lay_out_lanes(const LoadedTrace& loaded, LaneFrame& frame) {
  const TimelineModel& model = loaded.timeline;
  float y = frame.top;
  for (const Lane& lane : model.lanes) {
    const float part = shown(lane, frame.folded) ? 1 : 0;
    frame.lane_y.push_back(y);
    y += part * px(kLaneGap) / 2;
    for (size_t row = lane.first_row; row < lane.first_row + lane.rows; ++row) {
      frame.row_y.push_back(y);
      frame.row_height.push_back(part * px(thin(model, lane, row) ? kThinRowHeight : kRowHeight));
      y += frame.row_height.back();
    }
    y += part * px(kLaneGap) / 2;
  }
  frame.lane_y.push_back(y);
}

std::optional<int32_t> rank_named(const LoadedTrace& loaded, const LaneFrame& frame) {
  if (frame.mouse.x < frame.left || frame.mouse.x >= frame.axis.left) return std::nullopt;
  const auto& lanes = loaded.timeline.lanes;
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    if (frame.mouse.y >= frame.lane_y[lane] && frame.mouse.y < frame.lane_y[lane + 1] && lanes[lane].rank >= 0)
      return lanes[lane].rank;
  return std::nullopt;
}

float lanes_height(const TimelineModel& model, const std::set<int32_t>& folded) {
  float height = 0;
  for (const Lane& lane : model.lanes) {
    if (!shown(lane, folded)) continue;
    height += px(kLaneGap);
    for (size_t row = lane.first_row; row < lane.first_row + lane.rows; ++row)
      height += px(thin(model, lane, row) ? kThinRowHeight : kRowHeight);
  }
  return height;
}

std::optional<Hovered> draw_lanes(const LoadedTrace& loaded, const LaneFrame& frame, const ValueLifetime& lit) {
  return LaneDrawing(loaded, frame, lit).draw();
}

void draw_lifetime(const LoadedTrace& loaded, const LaneFrame& frame, const ValueLifetime& lifetime) {
  std::optional<Box> before;
  const trace::TraceEvent* last = nullptr;
  for (const uint32_t index : lifetime) {
    if (!is_shown(frame, loaded.timeline.row_of_event[index])) continue;
    const trace::TraceEvent& event = loaded.trace.events[index];
    Box box = box_of(frame, loaded.timeline.row_of_event[index], static_cast<double>(event.start_ns),
                     static_cast<double>(event.end_ns));
    box.x1 = std::max(box.x1, box.x0 + px(4));
    const ImU32 color = event_color(event);
    frame.list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, color);
    frame.list->AddRect({box.x0 - 1, box.y0 - 1}, {box.x1 + 1, box.y1 + 1}, palette().selection, 0, px(1.5F));
    label(frame, box, loaded.trace.names[event.name], text_on(color));
    if (before) {
      const ImVec2 from(before->x1, (before->y0 + before->y1) / 2), to(box.x0, (box.y0 + box.y1) / 2);
      draw_arrow(frame, from, to);
      draw_stay(frame, from, to, stay(*last, event));
    }
    before = box;
    last = &event;
  }
}

void draw_hits(const LoadedTrace& loaded, const LaneFrame& frame, const Search& search) {
  std::vector<float> last_x(frame.row_y.size(), -1);
  const float size = px(4);
  for (const uint32_t index : search.hits()) {
    const trace::TraceEvent& event = loaded.trace.events[index];
    if (static_cast<double>(event.end_ns) < frame.axis.start_ns ||
        static_cast<double>(event.start_ns) > frame.axis.end_ns)
      continue;
    const size_t row = loaded.timeline.row_of_event[index];
    if (!is_shown(frame, row)) continue;
    const float x = std::max(frame.axis.x(static_cast<double>(event.start_ns)), frame.axis.left + size);
    if (x - last_x[row] < size) continue;
    last_x[row] = x;
    const float y = frame.row_y[row];
    frame.list->AddTriangleFilled({x - size, y}, {x + size, y}, {x, y + 1.6F * size}, palette().warning);
  }
}

void outline_event(const LoadedTrace& loaded, const LaneFrame& frame, uint32_t index) {
  if (!is_shown(frame, loaded.timeline.row_of_event[index])) return;
  const trace::TraceEvent& event = loaded.trace.events[index];
  const Box box = box_of(frame, loaded.timeline.row_of_event[index], static_cast<double>(event.start_ns),
                         static_cast<double>(event.end_ns));
  frame.list->AddRect({box.x0 - 1, box.y0 - 1}, {box.x1 + 1, box.y1 + 1}, palette().selection, 0, px(2));
}

}  // namespace memtune::gui
