// The column beside the lanes: what is selected with its trip, who holds memory at a moment, what lies between two
// marks. And the tooltip under the mouse, in the same words.
#pragma once

#include "gui/pane/app.h"
#include "gui/pane/lanes.h"

namespace memtune::gui {

// `state.held` is the moment.
void draw_details(const AppState& state, const LoadedTrace& loaded, const Trip& lit);
void draw_tooltip(const LoadedTrace& loaded, const Hovered& hovered);

}  // namespace memtune::gui
