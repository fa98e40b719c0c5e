// Memory by owner at one moment: the legend of the memory curve, and the largest saved tensors.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// Draws `state.held` into the current window. Returns where the legend ends, in pixels from the window's top.
float draw_holders(const AppState& state, const MemoryModel& memory);

}  // namespace memtune::gui
