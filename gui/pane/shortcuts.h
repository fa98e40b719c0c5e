// The keyboard shortcuts and their actions.
#pragma once

#include <vector>

#include "gui/pane/app.h"

namespace memtune::gui {

struct KeyHelp {
  const char *keys, *does;
};
const std::vector<KeyHelp>& key_help();  // in the order of the help

// Handles ImGui's input of this frame. Ignores keys that are typed into a text field.
void handle_keys(AppState& state);

// Actions of the timeline's keys.
void fit_selection(AppState& state);  // the lifetime, the event, or all
void jump_to_peak(AppState& state);
void step_search(AppState& state, bool forward);
void step_scale(AppState& state, int steps);  // 0: back to 1

}  // namespace memtune::gui
