#include "gui/pane/theme.h"

#include <implot.h>

#include <array>
#include <cstdlib>

namespace memtune::gui {
namespace {

// "#4e9af1" in ImGui's format.
constexpr ImU32 rgb(uint32_t hex) { return IM_COL32((hex >> 16) & 255, (hex >> 8) & 255, hex & 255, 255); }

constexpr Palette kDark = {rgb(0xe6e8eb), rgb(0x8f98a3), rgb(0x1d2024), rgb(0x22262b), rgb(0x343a41), rgb(0x4e9af1),
                           rgb(0xf2b84b), rgb(0xf0616d), rgb(0x5cc489), rgb(0xf0616d), rgb(0xffffff)};
constexpr Palette kLight = {rgb(0x1b1f24), rgb(0x67707b), rgb(0xf6f7f9), rgb(0xeef0f3), rgb(0xd5d9df), rgb(0x1f6fd6),
                            rgb(0xa86400), rgb(0xc4283a), rgb(0x1b7f4b), rgb(0xc4283a), rgb(0x000000)};

// Distinguishable on both backgrounds and with most color vision deficiencies (after Paul Tol's sets).
constexpr std::array<ImU32, 12> kSeries = {rgb(0x4e86c6), rgb(0xe0904a), rgb(0x4fa66b), rgb(0xc25b77),
                                           rgb(0x8a6fc0), rgb(0xc7ab3a), rgb(0x4bb0b8), rgb(0x9c6b4e),
                                           rgb(0xd07fb6), rgb(0x7f8f45), rgb(0x6b7f99), rgb(0xd96a5a)};

struct Applied {
  Palette palette = kDark;
  float scale = 1;
} applied;

ImVec4 color(ImU32 packed, float alpha = 1) {
  ImVec4 value = unpacked(packed);
  value.w *= alpha;
  return value;
}

void set_colors(ImGuiStyle& style, const Palette& palette) {
  style.Colors[ImGuiCol_Text] = color(palette.text);
  style.Colors[ImGuiCol_TextDisabled] = color(palette.faint_text);
  style.Colors[ImGuiCol_WindowBg] = color(palette.lane);
  style.Colors[ImGuiCol_ChildBg] = color(palette.lane, 0);
  style.Colors[ImGuiCol_PopupBg] = color(palette.lane_alternate);
  style.Colors[ImGuiCol_Border] = color(palette.grid);
  style.Colors[ImGuiCol_MenuBarBg] = color(palette.lane_alternate);
  for (const int item : {ImGuiCol_FrameBg, ImGuiCol_Button, ImGuiCol_TableHeaderBg, ImGuiCol_Tab})
    style.Colors[item] = color(palette.grid, 0.7F);
  for (const int item : {ImGuiCol_Header, ImGuiCol_TabSelected, ImGuiCol_ButtonActive, ImGuiCol_FrameBgActive})
    style.Colors[item] = color(palette.accent, 0.45F);
  for (const int item : {ImGuiCol_HeaderHovered, ImGuiCol_TabHovered, ImGuiCol_ButtonHovered, ImGuiCol_FrameBgHovered})
    style.Colors[item] = color(palette.accent, 0.6F);
}

void style_plots(float scale) {
  ImPlotStyle& plots = ImPlot::GetStyle();
  plots = ImPlotStyle();
  for (ImVec2* length : {&plots.PlotPadding, &plots.LabelPadding, &plots.LegendPadding, &plots.LegendInnerPadding,
                         &plots.MajorTickLen, &plots.MinorTickLen, &plots.MousePosPadding, &plots.AnnotationPadding,
                         &plots.MajorGridSize, &plots.MinorGridSize, &plots.MajorTickSize, &plots.MinorTickSize}) {
    length->x *= scale;
    length->y *= scale;
  }
  plots.FitPadding = {0.06F, 0.08F};  // otherwise markers are cut at the edges
}

}  // namespace

const Palette& palette() { return applied.palette; }
ImVec4 ground_color() { return color(applied.palette.lane); }
float px(float length) { return length * applied.scale; }

ImU32 kind_color(trace::EventKind kind) {
  switch (kind) {
    case trace::EventKind::kernel: return rgb(0x4e86c6);
    case trace::EventKind::copy_out: return rgb(0xe0904a);
    case trace::EventKind::copy_in: return rgb(0x4fa66b);
    case trace::EventKind::copy_device: return rgb(0x6b7f99);
    case trace::EventKind::memset: return rgb(0x7d8794);
    case trace::EventKind::wait: return rgb(0xd94f5c);
    case trace::EventKind::op: return rgb(0x8a6fc0);
    case trace::EventKind::region: return rgb(0x5b7f95);
    case trace::EventKind::disk_write: return rgb(0xb5763a);
    case trace::EventKind::disk_read: return rgb(0x3f9a95);
    case trace::EventKind::save: return rgb(0xd0a62e);
    case trace::EventKind::use: return rgb(0x3fae74);
    case trace::EventKind::collective: return rgb(0xc06a9e);
  }
  return rgb(0x7d8794);
}

ImU32 placement_color(std::string_view placement) {
  if (placement == "keep") return rgb(0x4e86c6);
  if (placement == "recompute") return rgb(0x8a6fc0);
  if (placement == "host") return rgb(0xe0904a);
  if (placement == "disk") return rgb(0x9c6b4e);
  return rgb(0x7d8794);
}

ImU32 series_color(size_t index) { return kSeries[index % kSeries.size()]; }

ImU32 with_alpha(ImU32 color, float alpha) {
  const auto old = static_cast<float>(color >> IM_COL32_A_SHIFT);
  return (color & ~IM_COL32_A_MASK) | (static_cast<ImU32>(old * alpha) << IM_COL32_A_SHIFT);
}

ImVec4 unpacked(ImU32 color) { return ImGui::ColorConvertU32ToFloat4(color); }

ImU32 text_on(ImU32 packed) {
  const ImVec4 ground = color(packed);
  const float light = 0.299F * ground.x + 0.587F * ground.y + 0.114F * ground.z;
  return light > 0.56F ? rgb(0x14171a) : rgb(0xffffff);
}

void apply_theme(Theme theme, float scale) {
  applied = {theme == Theme::dark ? kDark : kLight, scale};
  // Scaling is not idempotent, so it starts from the default style each time.
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle();
  theme == Theme::dark ? ImGui::StyleColorsDark(&style) : ImGui::StyleColorsLight(&style);
  set_colors(style, applied.palette);
  style.FontSizeBase = 15;
  style.FrameRounding = style.GrabRounding = style.PopupRounding = 3;
  style.ScaleAllSizes(scale);
  style.FontScaleDpi = scale;
  theme == Theme::dark ? ImPlot::StyleColorsDark() : ImPlot::StyleColorsLight();
  style_plots(scale);
}

}  // namespace memtune::gui
