// The viewer's window on a display.
#pragma once

#include "gui/pane/app.h"
#include "gui/platform/options.h"

namespace memtune::gui {

// Returns when the user closes the window. Throws UsageError without a display, and names the alternatives.
void run_window(AppState& state, const Options& options);

}  // namespace memtune::gui
