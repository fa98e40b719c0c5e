// Two trials over each other: memory, blocks and what the device did in a step of each, and their differences by name.
#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

// `state.trial` is A, `state.other_trial` B, where one is chosen. A click on a difference shows it in the timeline.
void draw_overlay(AppState& state);

}  // namespace memtune::gui
