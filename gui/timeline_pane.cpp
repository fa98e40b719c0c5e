#include "gui/timeline_pane.h"

namespace memtune::gui {

void draw_timeline(AppState& state) {
  state.show.reset();
  ImGui::TextUnformatted("nothing here yet");
}

}  // namespace memtune::gui
