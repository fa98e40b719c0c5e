// The timeline: lanes, the memory curve below them on the same axis, and their mouse and key handling.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

void draw_timeline(AppState& state);

}  // namespace memtune::gui
