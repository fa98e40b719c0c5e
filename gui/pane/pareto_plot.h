// Peak against step time: every trial that worked is a point, the front is drawn.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// A click on a point opens the trial in the timeline.
void draw_pareto(AppState& state);

}  // namespace memtune::gui
