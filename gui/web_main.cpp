// The viewer as a page's program. The page has put the run's folder into the file system that its memory holds.
#include <cstdio>
#include <exception>

#include "gui/platform/web.h"

int main(int argc, char** argv) try {
  using namespace memtune::gui;
  static AppState state;  // outlives main: the browser calls back
  const Options options = parse_options({argv + 1, argv + argc});
  apply_options(state, options);
  run_page(state, options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "memtune: %s\n", error.what());
  return 1;
}
