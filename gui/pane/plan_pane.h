#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

void draw_plan(AppState& state);

}  // namespace memtune::gui
