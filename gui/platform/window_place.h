// Position and size of the window when it was closed, stored in $XDG_STATE_HOME/memtune/window.json.
#pragma once

#include <filesystem>
#include <optional>

namespace memtune::gui {

struct WindowPlace {
  int x = 0, y = 0, width = 0, height = 0;
  bool maximized = false;
};

std::filesystem::path window_place_path();  // empty without XDG_STATE_HOME and HOME

// None if the file is missing or invalid.
std::optional<WindowPlace> read_window_place();
void write_window_place(const WindowPlace& place);  // ignores errors: no work is lost

}  // namespace memtune::gui
