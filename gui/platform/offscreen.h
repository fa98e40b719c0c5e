// A picture of the viewer without a display: OpenGL through EGL, which takes a GPU or draws in software.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gui/pane/app.h"
#include "gui/platform/options.h"

namespace memtune::gui {

struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // rows from the top
};

class Offscreen {
 public:
  Offscreen(int width, int height);  // DeviceError when there is no EGL or it gives no OpenGL 3.3
  ~Offscreen();
  Offscreen(const Offscreen&) = delete;
  Offscreen& operator=(const Offscreen&) = delete;

  void frame(const std::function<void()>& draw);  // done when it returns
  Picture picture() const;                        // of the last frame

 private:
  struct Egl;
  std::unique_ptr<Egl> egl_;
  int width_, height_;
};

void write_png(const std::filesystem::path& path, const Picture& picture);  // IoError

// Draws the state until it rests and writes it.
void write_screenshot(AppState& state, const Options& options);

}  // namespace memtune::gui
