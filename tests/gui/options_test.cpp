#include "gui/platform/options.h"

#include <doctest/doctest.h>

#include <utility>

#include "core/base/error.h"
#include "tests/gui/screen.h"

namespace memtune::options_test {

using namespace memtune;
using gui::parse_options;

TEST_CASE("option values follow an equals sign or are the next argument") {
  const gui::Options options =
      parse_options({"run", "--size=800x600", "--theme", "light", "other", "--at=peak", "--scale", "1.5"});
  CHECK(options.paths == std::vector<std::string>{"run", "other"});
  CHECK(options.width == 800);
  CHECK(options.height == 600);
  CHECK(options.theme == gui::Theme::light);
  CHECK(options.at == "peak");
  CHECK(options.scale == 1.5F);
}

TEST_CASE("invalid options are rejected with a message on one line") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--size=big"}, "--size: 'big' is no size; give 1600x900"},
      {{"--size=3x4"}, "--size: 3x4 is out of range"},
      {{"--size=4294968896x900"}, "--size: 4294968896x900 is out of range; it takes 16x16 to 16384x16384"},
      {{"--size=1600x-4294966396"}, "--size: 1600x-4294966396 is out of range"},
      {{"--size=800x600x3"}, "--size: '800x600x3' is no size"},
      {{"--scale=0"}, "--scale: 0 is out of range"},
      {{"--theme=lihgt"}, "--theme: unknown value 'lihgt'; did you mean 'light'?"},
      {{"--tab=comapre"}, "--tab: unknown value 'comapre'; did you mean 'compare'?"},
      {{"--scal=2"}, "unknown flag '--scal'; did you mean '--scale'?"},
      {{"--screenshot", "x.jpg"}, "--screenshot: 'x.jpg' does not end in .png, and PNG is what is written"},
      {{"--at"}, "--at needs a value"},
      {{"a", "b", "c"}, "at most two runs: 'c' is a third"},
  };
  for (const auto& [arguments, message] : cases) {
    CAPTURE(message);
    std::string said;
    try {
      parse_options(arguments);
    } catch (const UsageError& error) {
      said = error.what();
    }
    CHECK_MESSAGE(said.starts_with(message), said);
  }
}

TEST_CASE("--at takes a time or the peak or the name of an activation") {
  test::Screen screen;
  const std::string path = (screen.folder.path / "trace.mttrace").string();
  trace::write_trace(path, test::small_trace());
  const auto shown = [&](const std::string& at) {
    screen.state = {};
    gui::apply_options(screen.state, parse_options({path, "--at=" + at}));
    screen.frames(3);
    return (screen.state.view.start_ns + screen.state.view.end_ns) / 2;
  };
  CHECK(shown("12.5") == doctest::Approx(12.5 * test::kMs));
  CHECK(shown("peak") == doctest::Approx(15 * test::kMs));
  shown("1 up");  // a part of the name
  CHECK(gui::highlighted_lifetime(screen.state).size() == 6);
  CHECK_THROWS_WITH_AS(shown("nowhere"),
                       "--at: 'nowhere' is neither a time in milliseconds nor \"peak\" nor a value of the trace",
                       UsageError);
}

TEST_CASE("a trial is selected by strategy or label or number") {
  test::Screen screen;
  const std::string path = (screen.folder.path / "trace.mttrace").string();
  trace::write_trace(path, test::small_trace());
  const auto selected = [&](const std::string& name) {
    screen.state = {};
    gui::apply_options(screen.state, parse_options({path, path, "--trial", name}));
    return screen.state.trial;
  };
  CHECK(selected("offload:stream") == 0);
  CHECK(selected("B: offload:stream") == 1);
  CHECK(selected("2") == 1);
  CHECK_THROWS_AS(selected("3"), UsageError);
}

}  // namespace memtune::options_test
