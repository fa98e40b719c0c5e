// Small widgets that several panes use.
#pragma once

#include <imgui.h>

#include <string>

namespace memtune::gui {

// A small colored square before the next text on the line.
void swatch(ImU32 color);
// Right-aligned in the available space, for example in a table cell.
void right_text(const std::string& text);
// Wrapped secondary text.
void faint(const std::string& text);
// Whether the left button was released where it was pressed, so that it was not dragged.
bool clicked();

}  // namespace memtune::gui
