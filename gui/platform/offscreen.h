// Renders the viewer without a display: OpenGL through EGL, on a GPU or in software.
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
  Offscreen(int width, int height);  // DeviceError without EGL or OpenGL 3.3
  ~Offscreen();
  Offscreen(const Offscreen&) = delete;
  Offscreen& operator=(const Offscreen&) = delete;

  void frame(const std::function<void()>& draw);  // blocks until the frame is drawn
  Picture picture() const;                        // of the last frame

 private:
  struct Egl;
  std::unique_ptr<Egl> egl_;
  int width_, height_;
};

void write_png(const std::filesystem::path& path, const Picture& picture);  // IoError

// Draws frames until the layout is stable, then writes a PNG.
void write_screenshot(AppState& state, const Options& options);

}  // namespace memtune::gui
