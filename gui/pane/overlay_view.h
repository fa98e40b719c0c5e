// Overlays a step of two trials: memory, blocks and device activity, with a list of their differences.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// `state.trial` is A, `state.other_trial` is B, if set. A click on a difference shows it in the timeline.
void draw_overlay(AppState& state);

}  // namespace memtune::gui
