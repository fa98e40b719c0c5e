// Time for the same work over peak: a point for every trial that worked, and the fronts.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// A click on a point opens its trial in the timeline.
void draw_pareto(AppState& state);

}  // namespace memtune::gui
