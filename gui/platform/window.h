// The window on a display.
#pragma once

#include "gui/pane/app.h"
#include "gui/platform/options.h"

namespace memtune::gui {

// Returns when the person closes it. UsageError with the ways out when there is no display.
void run_window(AppState& state, const Options& options);

}  // namespace memtune::gui
