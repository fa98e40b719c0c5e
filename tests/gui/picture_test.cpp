// Screenshots, drawn through EGL like those of --screenshot. The cases are skipped if EGL does not work.
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "gui/pane/theme.h"
#include "gui/platform/offscreen.h"
#include "gui/platform/options.h"
#include "tests/gui/made_up_run.h"
#include "tests/gui/screen.h"
#include "tests/support/skip.h"

using namespace memtune;

// Mesa keeps some memory until the process ends.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libEGL\nleak:swrast_dri\nleak:libglapi\nleak:_dri.so\n";
}

namespace {

// The reason why nothing can be drawn, "" if EGL works.
std::string no_egl() {
  try {
    const gui::Context context;
    const gui::Offscreen screen(16, 16);
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

struct Drawn {
  gui::Picture picture;
  // The number of pixels of exactly this color.
  size_t pixels(ImU32 color) const {
    size_t found = 0;
    for (size_t i = 0; i + 2 < picture.rgb.size(); i += 3)
      found += picture.rgb[i] == (color & 0xffU) && picture.rgb[i + 1] == (color >> 8 & 0xffU) &&
                       picture.rgb[i + 2] == (color >> 16 & 0xffU)
                   ? 1
                   : 0;
    return found;
  }
  uint8_t corner() const { return picture.rgb[3 * (size_t(picture.width) * 5 + 5)]; }
};

Drawn draw(const std::vector<std::string>& options, int width = 800, int height = 500) {
  const test::ScratchFolder folder;
  trace::write_trace(folder.path / "t.mttrace", test::small_trace());
  std::vector<std::string> arguments = {(folder.path / "t.mttrace").string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const gui::Options parsed = gui::parse_options(arguments);
  gui::AppState state;
  gui::apply_options(state, parsed);
  state.scale = parsed.scale.value_or(1.0F);
  const gui::Context context;
  gui::Offscreen screen(width, height);
  for (int i = 0; i < 6; ++i) screen.frame([&] { gui::draw_app(state); });
  return {screen.picture()};
}

}  // namespace

TEST_CASE("pictures are drawn without a display and are the same each time") {
  if (const std::string why = no_egl(); !why.empty()) MEMTUNE_SKIP(why);
  const Drawn first = draw({}), again = draw({});
  CHECK(first.picture.rgb.size() == size_t{800} * 500 * 3);
  // Each event takes 1 of 20 ms, in a row 20 pixels high, in each of two steps.
  for (const auto kind : {trace::EventKind::copy_out, trace::EventKind::copy_in, trace::EventKind::disk_write,
                          trace::EventKind::disk_read}) {
    CAPTURE(to_string(kind));
    CHECK(first.pixels(gui::kind_color(kind)) > 100);
  }
  CHECK(first.picture.rgb == again.picture.rgb);
}

TEST_CASE("theme and scale and tab and position change the picture") {
  if (const std::string why = no_egl(); !why.empty()) MEMTUNE_SKIP(why);
  const Drawn dark = draw({}), light = draw({"--theme=light"});
  CHECK(dark.corner() < 80);
  CHECK(light.corner() > 200);
  for (const char* option : {"--scale=2", "--tab=findings", "--at=layers.1 up", "--at=peak"}) {
    CAPTURE(option);
    CHECK(draw({option}).picture.rgb != dark.picture.rgb);
  }
}

TEST_CASE("memtune-view writes a PNG of the requested size") {
  if (const std::string why = no_egl(); !why.empty()) MEMTUNE_SKIP(why);
  const test::ScratchFolder folder;
  trace::write_trace(folder.path / "t.mttrace", test::small_trace());
  const std::string at = folder.path.string();
  const std::string line = test::program("memtune-view") + " " + at + "/t.mttrace --size=640x400 --screenshot " + at +
                           "/out.png >" + at + "/out 2>" + at + "/err";
  REQUIRE(std::system(line.c_str()) == 0);
  const std::string png = test::slurp(folder.path / "out.png");
  REQUIRE(png.size() > 100);
  CHECK(png.substr(1, 3) == "PNG");
  CHECK(png.substr(16, 8) == std::string("\0\0\x02\x80\0\0\x01\x90", 8));
  CHECK(test::slurp(folder.path / "err") == "");
}

// What the viewer says of `path` without a display.
std::string said_without_display(const test::ScratchFolder& folder, const std::string& path) {
  const std::string at = folder.path.string();
  // GLFW unloads X11's library, which leaks some memory.
  const std::string line = "env -u DISPLAY -u WAYLAND_DISPLAY ASAN_OPTIONS=detect_leaks=0 " +
                           test::program("memtune-view") + " " + at + "/" + path + " 2>" + at + "/err";
  CHECK(WEXITSTATUS(std::system(line.c_str())) == 2);
  const std::string said = test::slurp(folder.path / "err");
  CHECK(said.find("no display") != std::string::npos);
  CHECK(test::count_lines(said) == 1);
  return said;
}

TEST_CASE("without a display the viewer reports it and names the alternatives") {
  const test::ScratchFolder folder;
  trace::write_trace(folder.path / "t.mttrace", test::small_trace());
  CHECK(said_without_display(folder, "t.mttrace").find("--screenshot") != std::string::npos);
  test::write_run(folder.path / "run");
  const std::string said = said_without_display(folder, "run"), run = (folder.path / "run").string();
  CHECK(said.find("memtune report " + run + " --html --interactive") != std::string::npos);
  CHECK(said.find(":" + run + "/view.html") != std::string::npos);
}
