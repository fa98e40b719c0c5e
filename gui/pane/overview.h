// A miniature of a whole trace: lanes and memory, with highlighted ranges of time.
#pragma once

#include <span>

#include "gui/pane/app.h"

namespace memtune::gui {

struct Stretched {
  trace::TimeInterval range;
  ImU32 color = 0;
};

// Fills the remaining space, if that is large enough. Returns true if it was clicked.
bool draw_overview(const LoadedTrace& loaded, std::span<const Stretched> stretches);

}  // namespace memtune::gui
