#include <imgui.h>

#include <filesystem>
#include <roboto.inc>  // made by the build

#include "gui/pane/theme.h"

namespace memtune::gui {

void add_fonts() {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.AddFontFromMemoryCompressedTTF(roboto_compressed_data, static_cast<int>(roboto_compressed_size));
  constexpr const char* kArrows = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
  if (!std::filesystem::exists(kArrows)) return;
  ImFontConfig merge;
  merge.MergeMode = true;
  atlas.AddFontFromFileTTF(kArrows, 0, &merge);
}

}  // namespace memtune::gui
