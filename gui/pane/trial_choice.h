// A box to choose one of the opened trials from.
#pragma once

#include <optional>

#include "gui/pane/app.h"

namespace memtune::gui {

// The trial that was chosen in this frame. `shown` is what the box says now; trials without a trace cannot be chosen
// where `with_trace`.
std::optional<size_t> choose_trial(const Run& run, const char* id, std::optional<size_t> shown, bool with_trace = true);

}  // namespace memtune::gui
