#include "gui/platform/window_place.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace memtune::gui {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMinSide = 200, kMaxSide = 16384;

}  // namespace

fs::path window_place_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state && *state == '/') return fs::path(state) / "memtune" / "window.json";
  return home && *home ? fs::path(home) / ".local" / "state" / "memtune" / "window.json" : fs::path();
}

std::optional<WindowPlace> read_window_place() try {
  const Json json = parse_json(read_file(window_place_path()));
  const WindowPlace place{whole_int_at(json, "x"), whole_int_at(json, "y"), whole_int_at(json, "width"),
                          whole_int_at(json, "height"), json.at("maximized")};
  const auto sensible = [](int side) { return side >= kMinSide && side <= kMaxSide; };
  return sensible(place.width) && sensible(place.height) ? std::optional(place) : std::nullopt;
} catch (const std::exception&) {
  return std::nullopt;
}

void write_window_place(const WindowPlace& place) try {
  const fs::path path = window_place_path();
  if (path.empty()) return;
  fs::create_directories(path.parent_path());
  const Json json = {
      {"x", place.x}, {"y", place.y}, {"width", place.width}, {"height", place.height}, {"maximized", place.maximized}};
  write_file(path, json.dump(1) + "\n");
} catch (const std::exception&) {
}

}  // namespace memtune::gui
