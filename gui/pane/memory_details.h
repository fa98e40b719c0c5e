// Who holds memory at a moment, and as what: the legend of the memory curve, with the plan's largest values below it.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// Of `state.held`, into the current window. Returns where the legend ends, in pixels from the window's top.
float draw_holders(const AppState& state, const MemoryModel& memory);

}  // namespace memtune::gui
