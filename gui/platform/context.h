// ImGui's and ImPlot's contexts as the viewer wants them, for as long as it lives. One at a time.
#pragma once

namespace memtune::gui {

class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

}  // namespace memtune::gui
