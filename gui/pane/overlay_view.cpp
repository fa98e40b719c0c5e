#include "gui/pane/overlay_view.h"

#include <implot.h>

#include <algorithm>
#include <cmath>

#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "gui/pane/trial_choice.h"
#include "gui/pane/widgets.h"

namespace memtune::gui {
namespace {

constexpr float kStripsHeight = 150;
constexpr double kMinDelta = 0.05;  // ms

std::string signed_ms(double ms) { return (ms < 0 ? "-" : "+") + fixed(std::abs(ms), 1); }

ImU32 activity_color(size_t kind) {
  switch (kind) {
    case 0: return kind_color(trace::EventKind::kernel);
    case 1: return kind_color(trace::EventKind::copy_in);
    case 2: return kind_color(trace::EventKind::copy_out);
    case 3: return kind_color(trace::EventKind::collective);
    case 4: return kind_color(trace::EventKind::wait);
    default: return palette().grid;
  }
}

ImU32 block_color(const Stretch& block, size_t index) {
  constexpr size_t kSeries[] = {0, 1, 4, 3};
  return with_alpha(series_color(kSeries[block.kind]), index % 2 == 0 ? 1 : 0.75F);
}

void choose(AppState& state) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  state.compare.choice = {at.x + px(20), at.y + ImGui::GetFrameHeight() / 2};
  if (const auto a = choose_trial(state.run, "##a", state.trial)) select_trial(state, *a);
  ImGui::SameLine();
  ImGui::TextColored(unpacked(series_color(0)), "A");
  ImGui::SameLine(0, px(16));
  if (const auto b = choose_trial(state.run, "##b", state.other_trial)) state.other_trial = b;
  ImGui::SameLine();
  ImGui::TextColored(unpacked(series_color(1)), "B");
}

const Overlay& overlay_of(AppState& state) {
  CompareState& compare = state.compare;
  if (!compare.overlay || compare.overlay_a != state.trial || compare.overlay_b != *state.other_trial) {
    compare.overlay = make_overlay(state.current().load(), state.run.trials[*state.other_trial].load());
    compare.overlay_a = state.trial;
    compare.overlay_b = *state.other_trial;
    compare.fit = true;
  }
  return *compare.overlay;
}

void draw_curve(const char* name, const OverlaySide& side, ImU32 line) {
  if (side.times_ms.empty()) return;
  ImPlotSpec spec;
  spec.LineColor = unpacked(line);
  spec.LineWeight = px(1.8F);
  ImPlot::PlotStairs(name, side.times_ms.data(), side.memory.data(), static_cast<int>(side.times_ms.size()), spec);
}

void draw_memory_plot(const Overlay& overlay, float height, double* from_ms, double* to_ms) {
  if (!ImPlot::BeginPlot("##memory", {-1, height}, ImPlotFlags_NoTitle | ImPlotFlags_NoMouseText)) return;
  ImPlot::SetupAxes(nullptr, overlay.unit.name, ImPlotAxisFlags_NoTickLabels,
                    ImPlotAxisFlags_AutoFit | ImPlotAxisFlags_RangeFit);
  ImPlot::SetupAxisLinks(ImAxis_X1, from_ms, to_ms);
  ImPlot::SetupLegend(ImPlotLocation_NorthEast);
  draw_curve("A", overlay.a, series_color(0));
  draw_curve("B", overlay.b, series_color(1));
  ImPlot::EndPlot();
}

// Draws one strip between two heights of the plot's axis, with labels where they fit.
void draw_strip(const std::vector<Stretch>& stretches, double low, double high, bool blocks) {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  for (size_t i = 0; i < stretches.size(); ++i) {
    const Stretch& stretch = stretches[i];
    const ImVec2 from = ImPlot::PlotToPixels(stretch.start_ms, high), to = ImPlot::PlotToPixels(stretch.end_ms, low);
    const ImU32 fill = blocks ? block_color(stretch, i) : activity_color(stretch.kind);
    list.AddRectFilled(from, {std::max(to.x, from.x + 1), to.y}, fill);
    const ImVec2 size = ImGui::CalcTextSize(stretch.name.c_str());
    if (blocks && to.x - from.x > size.x + px(6))
      list.AddText({from.x + px(3), (from.y + to.y - size.y) / 2}, text_on(fill), stretch.name.c_str());
  }
}

const Stretch* stretch_at(const std::vector<Stretch>& stretches, double ms) {
  const Stretch* found = nullptr;  // the last one: nested stretches follow
  for (const Stretch& stretch : stretches) {
    if (stretch.start_ms <= ms && ms < stretch.end_ms && (!found || stretch.start_ms >= found->start_ms))
      found = &stretch;
  }
  return found;
}

void draw_strips(const Overlay& overlay, double* from_ms, double* to_ms) {
  if (!ImPlot::BeginPlot("##strips", {-1, -1}, ImPlotFlags_NoTitle | ImPlotFlags_NoMouseText | ImPlotFlags_NoLegend))
    return;
  constexpr double kTicks[] = {3.5, 2.5, 1.5, 0.5};
  const char* const labels[] = {"A blocks", "B blocks", "A device", "B device"};
  ImPlot::SetupAxes("ms since the step began", nullptr, 0, ImPlotAxisFlags_Lock | ImPlotAxisFlags_NoGridLines);
  ImPlot::SetupAxisLinks(ImAxis_X1, from_ms, to_ms);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, 4, ImPlotCond_Always);
  ImPlot::SetupAxisTicks(ImAxis_Y1, kTicks, 4, labels);
  const std::vector<Stretch>* const strips[] = {&overlay.a.blocks, &overlay.b.blocks, &overlay.a.activity,
                                                &overlay.b.activity};
  ImPlot::PushPlotClipRect();
  for (size_t i = 0; i < 4; ++i) draw_strip(*strips[i], kTicks[i] - 0.42, kTicks[i] + 0.42, i < 2);
  ImPlot::PopPlotClipRect();
  if (ImPlot::IsPlotHovered()) {
    const ImPlotPoint mouse = ImPlot::GetPlotMousePos();
    const size_t strip = static_cast<size_t>(std::clamp(4 - mouse.y, 0.0, 3.99));
    if (const Stretch* found = stretch_at(*strips[strip], mouse.x))
      ImGui::SetTooltip("%s\n%s ms", found->name.c_str(), fixed(found->end_ms - found->start_ms, 2).c_str());
  }
  ImPlot::EndPlot();
}

// Legend of the activity strips.
void draw_activity_legend() {
  for (size_t kind = 0; kind < findings::kDeviceParts.size(); ++kind) {
    swatch(activity_color(kind));
    ImGui::TextDisabled("%s", findings::kDeviceParts[kind].c_str());
    if (kind + 1 < findings::kDeviceParts.size()) ImGui::SameLine(0, px(14));
  }
}

void draw_plots(AppState& state, const Overlay& overlay) {
  CompareState& compare = state.compare;
  if (compare.fit) {
    compare.to_ms = 1.02 * std::max({overlay.a.step_ms, overlay.b.step_ms, 1e-6});
    compare.from_ms = compare.to_ms * -0.01;
    compare.fit = false;
  }
  draw_activity_legend();
  const float height =
      std::max(px(60), ImGui::GetContentRegionAvail().y - px(kStripsHeight) - ImGui::GetStyle().ItemSpacing.y);
  if (!ImPlot::BeginAlignedPlots("overlay")) return;
  draw_memory_plot(overlay, height, &compare.from_ms, &compare.to_ms);
  draw_strips(overlay, &compare.from_ms, &compare.to_ms);
  ImPlot::EndAlignedPlots();
}

void show_part(AppState& state, const findings::StepPartDiff& part) {
  if (part.in_b.end > part.in_b.start)
    show_range(state, *state.other_trial, part.in_b);
  else if (part.in_a.end > part.in_a.start)
    show_range(state, state.trial, part.in_a);
}

void draw_part(AppState& state, const findings::StepPartDiff& part, Cursor& cursor) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  cursor = {at.x + px(10), at.y + ImGui::GetTextLineHeight() / 2};
  if (ImGui::Selectable(part.name.c_str(), false, ImGuiSelectableFlags_SpanAllColumns)) show_part(state, part);
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort)) ImGui::SetTooltip("%s", findings::sentence(part).c_str());
  for (const double ms : {part.a_ms, part.b_ms}) {
    ImGui::TableNextColumn();
    right_text(fixed(ms, 1));
  }
  ImGui::TableNextColumn();
  ImGui::PushStyleColor(ImGuiCol_Text, part.delta_ms() > 0 ? palette().bad : palette().good);
  right_text(signed_ms(part.delta_ms()));
  ImGui::PopStyleColor();
  ImGui::TableNextColumn();
  ImGui::TextDisabled("%s", part.cause.c_str());
}

void draw_differences(AppState& state, const Overlay& overlay) {
  const findings::TraceStepTimeDiff& diff = overlay.diff;
  ImGui::Text("a traced step: A %s, B %s ms (%s)", fixed(diff.a_ms, 1).c_str(), fixed(diff.b_ms, 1).c_str(),
              signed_ms(diff.b_ms - diff.a_ms).c_str());
  const auto flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit;
  if (!ImGui::BeginTable("differences", 5, flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* head : {"what", "A ms", "B ms", "B - A"}) ImGui::TableSetupColumn(head);
  ImGui::TableSetupColumn("most of it", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableHeadersRow();
  state.compare.parts.assign(diff.parts.size(), {});
  for (size_t i = 0; i < diff.parts.size(); ++i) {
    if (std::abs(diff.parts[i].delta_ms()) >= kMinDelta) draw_part(state, diff.parts[i], state.compare.parts[i]);
  }
  ImGui::EndTable();
}

// Prints problems of the traces. False if one is missing, so that steps cannot be compared.
bool can_be_laid_over(const AppState& state) {
  bool both = true;
  for (const size_t trial : {state.trial, *state.other_trial}) {
    const LoadedTrace& loaded = state.run.trials[trial].load();
    both = both && !loaded.trace.events.empty();
    if (!loaded.problem.empty())
      ImGui::TextColored(unpacked(palette().warning), "%s: %s", state.run.trials[trial].label().c_str(),
                         loaded.problem.c_str());
  }
  return both;
}

// The measured figures, which need no trace.
void draw_figures(const AppState& state) {
  ImGui::TextDisabled(
      "its steps cannot be overlaid with those of the other; the table above has the measurements of both");
  const result::TrialMeasurement& a = state.current().row().measurement;
  const result::TrialMeasurement& b = state.run.trials[*state.other_trial].row().measurement;
  if (!usable(a) || !usable(b)) return;
  ImGui::Text("a measured step: A %s, B %s ms (%s); peak: A %s, B %s", fixed(a.step_ms.median, 1).c_str(),
              fixed(b.step_ms.median, 1).c_str(), signed_ms(b.step_ms.median - a.step_ms.median).c_str(),
              format_bytes(a.peak_bytes.allocated).c_str(), format_bytes(b.peak_bytes.allocated).c_str());
}

}  // namespace

void draw_overlay(AppState& state) {
  choose(state);
  if (!state.other_trial || *state.other_trial >= state.run.trials.size())
    return ImGui::TextDisabled("choose a second trial to overlay it with the first, step by step");
  if (!can_be_laid_over(state)) return draw_figures(state);
  const Overlay& overlay = overlay_of(state);
  ImGui::BeginChild("plots", {ImGui::GetContentRegionAvail().x * 0.6F, 0}, 0,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  draw_plots(state, overlay);
  ImGui::EndChild();
  ImGui::SameLine(0, px(10));
  ImGui::BeginChild("differences");
  draw_differences(state, overlay);
  ImGui::EndChild();
}

}  // namespace memtune::gui
