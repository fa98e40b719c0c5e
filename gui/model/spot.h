// Where on the screen something was drawn last, so that whoever injects a click (a test, a script) finds it.
#pragma once

namespace memtune::gui {

struct Spot {
  float x = -1, y = -1;  // pixels; -1: not drawn
};

}  // namespace memtune::gui
