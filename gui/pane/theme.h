// Colors and sizes of the dark and the light theme. Panes take all colors from here, so that a kind, placement or owner
// looks the same everywhere. Colors are ImU32, as draw lists need them.
#pragma once

#include <imgui.h>

#include <string_view>

#include "core/record/trace/trace_event.h"

namespace memtune::gui {

enum class Theme { dark, light };

struct Palette {
  ImU32 text, faint_text, lane, lane_alternate, grid, accent, warning, bad, good, budget, selection;
};
const Palette& palette();  // of the current theme

// The color to clear the background with. It is not drawn, because in software rendering each pixel costs time.
ImVec4 ground_color();

ImU32 kind_color(trace::EventKind kind);
ImU32 placement_color(std::string_view placement);  // "keep", "recompute", "host", "disk"
ImU32 series_color(size_t index);                   // of strategies, owners, blocks; repeats after 12
ImU32 with_alpha(ImU32 color, float alpha);
ImVec4 unpacked(ImU32 color);  // for widgets and plots
ImU32 text_on(ImU32 color);    // black or white, whichever has more contrast

// Sets the whole style of ImGui and ImPlot; `scale` multiplies all sizes.
void apply_theme(Theme theme, float scale);
// Converts a length at scale 1 to pixels.
float px(float length);

// Adds Roboto, and DejaVu Sans for arrows if it is installed. Call once after creating the ImGui context.
void add_fonts();

}  // namespace memtune::gui
