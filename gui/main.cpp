// memtune-view: the viewer. It is a program of its own, because it needs neither LibTorch nor CUDA.
#include <cstdio>
#include <exception>

#include "core/base/error.h"
#include "gui/platform/offscreen.h"
#include "gui/platform/window.h"

namespace {

int fail(const std::exception& error, int code) {
  std::fprintf(stderr, "memtune: %s\n", error.what());
  return code;
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace memtune::gui;
  const Options options = parse_options({argv + 1, argv + argc});
  if (options.help) {
    std::fputs(help_text().c_str(), stdout);
    return 0;
  }
  AppState state;
  apply_options(state, options);
  options.screenshot.empty() ? run_window(state, options) : write_screenshot(state, options);
  return 0;
} catch (const memtune::UsageError& error) {
  return fail(error, 2);
} catch (const std::exception& error) {
  return fail(error, 1);
}
