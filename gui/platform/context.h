// Creates ImGui's and ImPlot's contexts with the viewer's settings and destroys them. One instance at a time.
#pragma once

namespace memtune::gui {

class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

// Whether the last frame had input, so that the next one is worth drawing at once.
bool had_input();

}  // namespace memtune::gui
