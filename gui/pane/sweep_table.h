// The sweep as a table that can be sorted by column and filtered by words.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// A click selects trial A, Ctrl + click selects trial B to compare with, a double click opens the trial in the
// timeline.
void draw_sweep_table(AppState& state);

}  // namespace memtune::gui
