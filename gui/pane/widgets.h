// What several panes draw or ask in the same way.
#pragma once

#include <imgui.h>

#include <string>

namespace memtune::gui {

// A small square before the text that comes next in its line.
void swatch(ImU32 color);
// At the right end of the room that there is, as of a table's cell.
void right_text(const std::string& text);
// Wrapped, in the color of what is told by the way.
void faint(const std::string& text);
// The left button went up where it had gone down: dragging moves what lies there.
bool clicked();

}  // namespace memtune::gui
