// Colors and sizes, for dark and light. Panes take every color from here, so that a kind, a placement and an owner look
// the same everywhere. Colors are ImU32 as draw lists take them.
#pragma once

#include <imgui.h>

#include <string_view>

#include "core/trace/event.h"

namespace memtune::gui {

enum class Theme { dark, light };

struct Palette {
  ImU32 text, faint_text, lane, lane_alternate, grid, accent, warning, bad, good, budget, selection;
};
const Palette& palette();  // of the theme that was applied last

// The ground is cleared to, not drawn: in software each pixel counts.
ImVec4 ground_color();

ImU32 kind_color(trace::EventKind kind);
ImU32 placement_color(std::string_view placement);  // "keep", "recompute", "host", "disk"
ImU32 series_color(size_t index);                   // of strategies, owners, blocks: repeats after 12
ImU32 with_alpha(ImU32 color, float alpha);
ImVec4 unpacked(ImU32 color);  // as widgets and plots take it
ImU32 text_on(ImU32 color);    // black or white, whichever can be read

// Sets ImGui's and ImPlot's whole style; `scale` enlarges everything.
void apply_theme(Theme theme, float scale);
// Pixels of the display for a length at scale 1.
float px(float length);

// Roboto, with DejaVu Sans for arrows where it is installed. Once, after the ImGui context was made.
void add_fonts();

}  // namespace memtune::gui
