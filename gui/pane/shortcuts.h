// The keys, and what they do to the state.
#pragma once

#include <vector>

#include "gui/pane/app.h"

namespace memtune::gui {

struct KeyHelp {
  const char *keys, *does;
};
const std::vector<KeyHelp>& key_help();  // in the order of the help

// Reads ImGui's input of this frame. Keys that are typed into a field do nothing here.
void handle_keys(AppState& state);

// What the timeline's keys do.
void fit_selection(AppState& state);  // the trip, the event, or all
void jump_to_peak(AppState& state);
void step_search(AppState& state, bool forward);
void step_scale(AppState& state, int steps);  // 0: back to 1

}  // namespace memtune::gui
