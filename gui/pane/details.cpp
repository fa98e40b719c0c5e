#include "gui/pane/details.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "gui/model/format.h"
#include "gui/pane/memory_details.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr float kMinSelection = 0.15F;  // of the column's height

void fact(const char* name, const std::string& value) {
  if (value.empty()) return;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::TextDisabled("%s", name);
  ImGui::TableNextColumn();
  ImGui::TextWrapped("%s", value.c_str());
}

bool begin_facts(const char* id) {
  if (!ImGui::BeginTable(id, 2)) return false;
  ImGui::TableSetupColumn("fact", ImGuiTableColumnFlags_WidthFixed);
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
  return true;
}

std::string bytes_or_nothing(int64_t bytes) { return bytes > 0 ? format_bytes(bytes) : ""; }

void value_facts(const trace::TracedActivationPlacement& value) {
  fact("region", value.region);
  fact("placement", value.placement);
  fact("recompute", value.reason);
}

// The region of the model and the step that a kernel ran in; "" if it spans several.
std::string part_of(const trace::Trace& trace, const trace::TraceEvent& event) {
  const int64_t middle = event.start_ns + (event.end_ns - event.start_ns) / 2;
  const trace::TraceEvent* region = trace::region_at(trace, middle, trace.tracks[event.track].rank);
  const bool within = region && region->start_ns <= event.start_ns && event.end_ns <= region->end_ns;
  return within ? trace.names[region->name] : "";
}

void event_facts(const trace::Trace& trace, const trace::TraceEvent& event) {
  const int64_t length = event.end_ns - event.start_ns;
  fact("kind", to_string(event.kind));
  fact("lane", name_of_track(trace, trace.tracks[event.track]));
  if (event.kind == trace::EventKind::kernel) fact("part", part_of(trace, event));
  fact("at", format_time(static_cast<double>(event.start_ns), 1000));
  if (length > 0) fact("took", format_time(static_cast<double>(length)));
  fact("bytes", bytes_or_nothing(event.bytes));
  fact("rate", format_rate(event.bytes, length));
}

void draw_event(const trace::Trace& trace, const trace::TraceEvent& event) {
  swatch(event_color(event));
  ImGui::TextWrapped("%s", trace.names[event.name].c_str());
  if (!begin_facts("event")) return;
  event_facts(trace, event);
  ImGui::EndTable();
}

void draw_value(const trace::TracedActivationPlacement& value) {
  swatch(placement_color(value.placement));
  ImGui::TextWrapped("%s", value.name.c_str());
  if (!begin_facts("value")) return;
  value_facts(value);
  fact("bytes", bytes_or_nothing(value.bytes));
  ImGui::EndTable();
}

void draw_stage(const trace::TraceEvent& event) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  swatch(event_color(event));
  ImGui::TextUnformatted(stage_name(event.kind).c_str());
  ImGui::TableNextColumn();
  right_text(format_time(static_cast<double>(event.start_ns), 10'000));
  ImGui::TableNextColumn();
  const int64_t length = event.end_ns - event.start_ns;
  right_text(length > 0 ? format_time(static_cast<double>(length)) : "");
}

void draw_stages(const trace::Trace& trace, const ValueLifetime& lifetime) {
  if (lifetime.empty()) return faint("no event of it is in this trace");
  ImGui::SeparatorText("its lifetime");
  if (!ImGui::BeginTable("trip", 3, ImGuiTableFlags_SizingStretchProp)) return;
  for (const uint32_t index : lifetime) draw_stage(trace.events[index]);
  ImGui::EndTable();
}

// One lane between two times: the share of time that its first row fills, and its bytes.
void draw_lane_between(const LoadedTrace& loaded, const Lane& lane, trace::TimeInterval range) {
  const SpanRow& row = loaded.timeline.rows[lane.first_row];
  int64_t busy = 0, bytes = 0;
  for (size_t i = 0; i < row.events.size(); ++i) {
    const int64_t inside = std::min(row.ends_ns[i], range.end) - std::max(row.starts_ns[i], range.start);
    if (inside <= 0) continue;
    busy += inside;
    bytes += loaded.trace.events[row.events[i]].bytes;
  }
  if (busy == 0) return;
  const double share = 100.0 * static_cast<double>(busy) / static_cast<double>(range.end - range.start);
  fact(lane.name.c_str(), fixed(share, 0) + " % busy" + (bytes > 0 ? ", " + format_bytes(bytes) : ""));
}

void draw_measure(const LoadedTrace& loaded, const std::vector<int64_t>& marks) {
  const trace::TimeInterval range{std::min(marks[0], marks[1]), std::max(marks[0], marks[1])};
  const std::string length = format_time(static_cast<double>(range.end - range.start));
  ImGui::SeparatorText(("between the marks: " + length).c_str());
  if (!begin_facts("marks")) return;
  for (const Lane& lane : loaded.timeline.lanes) draw_lane_between(loaded, lane, range);
  ImGui::EndTable();
}

void draw_trial(const AppState& state, const LoadedTrace& loaded) {
  const result::TrialMeasurement& measured = state.current().row().measurement;
  ImGui::TextWrapped("%s", state.current().label().c_str());
  if (!begin_facts("trial")) return;
  fact("device", loaded.trace.device);
  if (measured.step_ms.median > 0) fact("step", fixed(measured.step_ms.median, 1) + " ms");
  fact("peak", bytes_or_nothing(measured.peak_bytes.allocated));
  fact("events", format_count(loaded.trace.events.size()));
  const trace::RunProvenance& origin = loaded.trace.origin;
  fact("model", origin.model);
  fact("written", origin.written);
  fact("memtune", origin.memtune);
  fact("PyTorch", origin.torch);
  fact("driver", origin.driver);
  fact("machine", origin.machine);
  fact("command", origin.command);
  ImGui::EndTable();
}

void draw_kernel_sum(const KernelSum& sum, int64_t total_ns) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(sum.name.c_str());
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", sum.name.c_str());  // the column may cut it
  if (!sum.module.empty()) ImGui::TextDisabled("%s", sum.module.c_str());
  ImGui::TableNextColumn();
  right_text("×" + format_count(sum.count));
  ImGui::TableNextColumn();
  right_text(format_time(static_cast<double>(sum.ns)));
  ImGui::TableNextColumn();
  right_text(fixed(100.0 * static_cast<double>(sum.ns) / static_cast<double>(total_ns), 0) + " %");
}

// Those of a chosen range are open at once. Those of the whole trace would take the room of the memory's table.
void draw_kernels(AppState& state, bool chosen) {
  constexpr size_t kShown = 50;
  if (!state.kernels || state.kernels->kernels.empty()) return;
  const KernelTable& table = *state.kernels;
  if (chosen)
    ImGui::SeparatorText("kernels");
  else if (!ImGui::CollapsingHeader("kernels of the whole trace"))
    return;
  if (ImGui::RadioButton("by name", !state.kernels_by_module)) state.kernels_by_module = false;
  ImGui::SameLine();
  if (ImGui::RadioButton("by module", state.kernels_by_module)) state.kernels_by_module = true;
  if (!ImGui::BeginTable("kernels", 4)) return;
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthStretch);
  for (const char* name : {"count", "time", "share"}) ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthFixed);
  const std::vector<KernelSum>& sums = state.kernels_by_module ? table.modules : table.kernels;
  for (size_t i = 0; i < std::min(sums.size(), kShown); ++i) draw_kernel_sum(sums[i], table.total_ns);
  ImGui::EndTable();
  if (sums.size() > kShown) faint("and " + format_count(sums.size() - kShown) + " shorter ones");
}

// Heights of the column's parts in the last frame. The legend stays next to its curve, always visible. Text below it
// gives way to the selection.
struct Heights {
  float& selection = remembered("selection height");
  float& legend = remembered("legend height");
  float& holders = remembered("holders height");

  float selection_room(float room, bool alone) const {
    const float gap = ImGui::GetStyle().ItemSpacing.y;
    const float below = std::clamp(room - selection - gap, legend, std::max(legend, holders));
    return alone ? room : std::max(room - below - gap, room * kMinSelection);
  }

  static float& remembered(const char* name) { return *ImGui::GetStateStorage()->GetFloatRef(ImGui::GetID(name)); }
};

void draw_selection(AppState& state, const LoadedTrace& loaded, const ValueLifetime& lit) {
  const ViewState& view = state.view;
  if (view.value) {
    draw_value(loaded.trace.value(view.value));
    draw_stages(loaded.trace, lit);
  } else if (view.event) {
    draw_event(loaded.trace, loaded.trace.events[*view.event]);
  } else {
    draw_trial(state, loaded);
  }
  const bool marked = view.marks.size() == 2 && view.marks[0] != view.marks[1];
  if (marked) draw_measure(loaded, view.marks);
  const bool chosen = chosen_range(view, loaded.trace).has_value();
  if (chosen || (!view.value && !view.event)) draw_kernels(state, chosen);
}

}  // namespace

void draw_details(AppState& state, const LoadedTrace& loaded, const ValueLifetime& lit) {
  const MemoryModel& memory = loaded.timeline.memory;
  Heights heights;
  ImGui::BeginChild("selection", {0, heights.selection_room(ImGui::GetContentRegionAvail().y, memory.empty())});
  draw_selection(state, loaded, lit);
  heights.selection = ImGui::GetCursorPosY();
  ImGui::EndChild();
  if (memory.empty()) return;
  ImGui::BeginChild("holders", {0, 0});
  heights.legend = draw_holders(state, memory);
  heights.holders = ImGui::GetCursorPosY();
  ImGui::EndChild();
}

void draw_tooltip(const LoadedTrace& loaded, const Hovered& hovered) {
  const trace::TraceEvent& event = loaded.trace.events[hovered.event];
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(px(360));
  if (hovered.bar.count > 1) {
    const std::string width = format_time(static_cast<double>(hovered.bar.end_ns - hovered.bar.start_ns));
    ImGui::Text("%s spans within %s", format_count(hovered.bar.count).c_str(), width.c_str());
    ImGui::TextDisabled("too narrow to be drawn one by one: zoom in");
  } else {
    ImGui::TextUnformatted(loaded.trace.names[event.name].c_str());
    if (begin_facts("tip")) {
      event_facts(loaded.trace, event);
      if (event.value) {
        fact("value", loaded.trace.value(event.value).name);
        value_facts(loaded.trace.value(event.value));
      }
      ImGui::EndTable();
    }
  }
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

}  // namespace memtune::gui
