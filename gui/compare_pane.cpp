#include "gui/compare_pane.h"

namespace memtune::gui {

void draw_compare(AppState&) { ImGui::TextUnformatted("nothing here yet"); }

}  // namespace memtune::gui
