// The column next to the lanes: the selected event with its tensor's lifetime, memory by owner at one moment, and
// figures between two marks. Also the tooltip under the mouse.
#pragma once

#include "gui/pane/app.h"
#include "gui/pane/lanes.h"

namespace memtune::gui {

// `state.held` defines the moment.
void draw_details(AppState& state, const LoadedTrace& loaded, const ValueLifetime& lit);
void draw_tooltip(const LoadedTrace& loaded, const Hovered& hovered);

}  // namespace memtune::gui
