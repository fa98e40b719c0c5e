#pragma once

#include "gui/pane/app.h"

namespace memtune::gui {

void draw_findings(AppState& state);

}  // namespace memtune::gui
