// Where the window was when it was closed, kept in $XDG_STATE_HOME/memtune/window.json.
#pragma once

#include <filesystem>
#include <optional>

namespace memtune::gui {

struct WindowPlace {
  int x = 0, y = 0, width = 0, height = 0;
  bool maximized = false;
};

std::filesystem::path window_place_path();  // empty when there is neither XDG_STATE_HOME nor HOME

// Nothing when there is none or it makes no sense.
std::optional<WindowPlace> read_window_place();
void write_window_place(const WindowPlace& place);  // says nothing when it cannot: no work is lost

}  // namespace memtune::gui
