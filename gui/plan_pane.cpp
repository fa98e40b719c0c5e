#include "gui/plan_pane.h"

namespace memtune::gui {

void draw_plan(AppState&) { ImGui::TextUnformatted("nothing here yet"); }

}  // namespace memtune::gui
