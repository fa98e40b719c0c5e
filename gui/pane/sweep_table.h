// The sweep as a table that is sorted by its heads and filtered by words.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// A click selects a trial (A), Ctrl and a click the one it is compared with (B), a double click opens it in the
// timeline.
void draw_sweep_table(AppState& state);

}  // namespace memtune::gui
