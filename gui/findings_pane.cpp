#include "gui/findings_pane.h"

namespace memtune::gui {

void draw_findings(AppState&) { ImGui::TextUnformatted("nothing here yet"); }

}  // namespace memtune::gui
