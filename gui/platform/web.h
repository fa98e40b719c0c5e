// The viewer in a browser's page: one canvas, drawn when the browser asks for a frame.
#pragma once

#include "gui/platform/options.h"

namespace memtune::gui {

// Draws into the page's canvas from now on, and returns. `state` must outlive the page. Throws DeviceError without
// WebGL 2.
void run_page(AppState& state, const Options& options);

}  // namespace memtune::gui
