// A combo box to choose one of the opened trials.
#pragma once

#include <optional>

#include "gui/pane/app.h"

namespace memtune::gui {

// Returns the trial chosen in this frame. `shown` is the current choice. With `with_trace`, trials without a trace are
// disabled.
std::optional<size_t> choose_trial(const Run& run, const char* id, std::optional<size_t> shown, bool with_trace = true);

}  // namespace memtune::gui
