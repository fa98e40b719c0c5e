#include "gui/platform/window_place.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/support/run_program.h"

namespace memtune::window_place_test {

using namespace memtune;

TEST_CASE("the window's place is stored and read back") {
  const test::ScratchFolder folder;
  const test::Variable state("XDG_STATE_HOME", folder.path.string());
  CHECK_FALSE(gui::read_window_place().has_value());
  gui::write_window_place({10, -20, 1234, 800, true});
  CHECK(std::filesystem::exists(folder.path / "memtune" / "window.json"));
  const auto place = gui::read_window_place();
  REQUIRE(place.has_value());
  CHECK(place->x == 10);
  CHECK(place->y == -20);
  CHECK(place->width == 1234);
  CHECK(place->maximized);
}

TEST_CASE("a damaged or implausible stored place is ignored") {
  const test::ScratchFolder folder;
  const test::Variable state("XDG_STATE_HOME", folder.path.string());
  gui::write_window_place({0, 0, 3, 3, false});
  CHECK_FALSE(gui::read_window_place().has_value());
  std::ofstream(gui::window_place_path()) << "{\"x\": \"left\"}";
  CHECK_FALSE(gui::read_window_place().has_value());
}

TEST_CASE("a place that cannot be written is no error") {
  const test::Variable state("XDG_STATE_HOME", "/proc/nowhere");
  gui::write_window_place({0, 0, 800, 600, false});
}

}  // namespace memtune::window_place_test
