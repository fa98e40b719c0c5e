// A whole trace in small: its lanes and its memory, with stretches of time picked out.
#pragma once

#include <span>

#include "gui/pane/app.h"

namespace memtune::gui {

struct Stretched {
  trace::Interval range;
  ImU32 color = 0;
};

// Fills the room that is left, where it is enough to show something; true: it was clicked.
bool draw_overview(const LoadedTrace& loaded, std::span<const Stretched> stretches);

}  // namespace memtune::gui
