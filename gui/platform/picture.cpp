#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#include <stb_image_write.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "gui/platform/context.h"
#include "gui/platform/offscreen.h"

namespace memtune::gui {
namespace {

constexpr int kFrames = 6;  // sizes of windows and tables settle in the first four

void append(void* text, void* data, int size) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(data), static_cast<size_t>(size));
}

}  // namespace

void write_png(const std::filesystem::path& path, const Picture& picture) {
  std::string png;
  stbi_write_png_to_func(append, &png, picture.width, picture.height, 3, picture.rgb.data(), picture.width * 3);
  write_file(path, png);
}

void write_screenshot(AppState& state, const Options& options) {
  const Context context;
  state.scale = options.scale.value_or(1.0F);
  Offscreen screen(options.width, options.height);
  for (int i = 0; i < kFrames; ++i) screen.frame([&] { draw_app(state); });
  write_png(options.screenshot, screen.picture());
}

}  // namespace memtune::gui
