// The memory curve below the lanes: stacked by owner, with the budget as a line and the peak marked.
#pragma once

#include "gui/pane/lanes.h"

namespace memtune::gui {

// Draws between frame.top and frame.bottom on the lanes' time axis.
void draw_memory(const LoadedTrace& loaded, const LaneFrame& frame);

// Color of the model's owner `index`; one past the last is the ops' work space.
ImU32 owner_color(const MemoryModel& model, size_t index);

}  // namespace memtune::gui
