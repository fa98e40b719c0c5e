#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

void draw_compare(AppState& state);

}  // namespace memtune::gui
