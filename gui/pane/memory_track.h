// The memory curve below the lanes: stacked by owner, with the budget's line and a flag on the peak.
#pragma once

#include "gui/pane/lanes.h"

namespace memtune::gui {

// Draws between frame.top and frame.bottom on the lanes' axis.
void draw_memory(const LoadedTrace& loaded, const LaneFrame& frame);

// Of the index-th owner of the model; one past the last: the ops' work space.
ImU32 owner_color(const MemoryModel& model, size_t index);

}  // namespace memtune::gui
