// The screen position where something was last drawn, so that tests and scripts can click it.
#pragma once

namespace memtune::gui {

struct Cursor {
  float x = -1, y = -1;  // pixels; -1: not drawn
};

}  // namespace memtune::gui
