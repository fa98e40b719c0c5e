#pragma once

#include "gui/app.h"

namespace memtune::gui {

void draw_findings(AppState& state);

}  // namespace memtune::gui
