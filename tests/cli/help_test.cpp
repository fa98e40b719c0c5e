// Help must fit a terminal of 80 columns without cutting or wrapping. Each option is under a heading for its purpose.
#include "cli/help.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/model/convert/convert_program.h"
#include "tests/support/run_program.h"

namespace memtune::help_test {

using namespace memtune;
using test::Ended;
using test::Workspace;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int widest(const std::string& text) {
  int width = 0;
  for (const std::string& line : split(text, '\n')) width = std::max(width, display_width(line));
  return width;
}

}  // namespace

TEST_CASE("no help line of any command is wider than the terminal") {
  cli::Action action;
  const auto app = cli::make_app(action);
  const auto all = cli::command_words(*app);
  REQUIRE(all.size() > 8);
  for (const cli::CommandWords& command : all) {
    for (const int width : {80, 100}) {
      CAPTURE(command.name);
      CAPTURE(width);
      for (const auto detail : {cli::HelpDetail::brief, cli::HelpDetail::full})
        CHECK(widest(cli::help_text(command, all, width, detail)) <= width);
    }
  }
}

TEST_CASE("the program of convert knows each task that the command offers") {
  cli::Action action;
  const auto app = cli::make_app(action);
  int tasks = 0;
  for (const cli::CommandWords& command : cli::command_words(*app)) {
    if (command.name != "convert") continue;
    for (const cli::OptionWords& option : command.options) {
      if (std::ranges::find(option.names, "--task") == option.names.end()) continue;
      for (const std::string& task : option.offers) {
        CAPTURE(task);
        CHECK(model::convert_program().find('"' + task + "\": \"") != std::string_view::npos);
        ++tasks;
      }
    }
  }
  CHECK(tasks > 5);
}

TEST_CASE("the description of a command is a whole sentence") {
  cli::Action action;
  const auto app = cli::make_app(action);
  for (const CLI::App* command : app->get_subcommands({})) {
    if (command->get_group().empty()) continue;
    const std::string description = command->get_description();
    CAPTURE(description);
    const std::string first = description.substr(0, description.find('\n'));
    CHECK((first.ends_with('.') || first == description));
  }
}

TEST_CASE("the help of every command fits 40 lines and names the way to all options") {
  cli::Action action;
  const auto app = cli::make_app(action);
  const auto all = cli::command_words(*app);
  int shortened = 0;
  for (const cli::CommandWords& command : all) {
    CAPTURE(command.name);
    const std::string brief = cli::help_text(command, all, 80, cli::HelpDetail::brief);
    const std::string full = cli::help_text(command, all, 80, cli::HelpDetail::full);
    CHECK(std::ranges::count(brief, '\n') <= cli::kShortHelpLines);
    for (const cli::OptionWords& option : command.options) {
      CAPTURE(option.names.back());
      CHECK(has(full, option.names.back()));
      if (option.essential) CHECK(has(brief, option.names.back()));
    }
    if (brief == full) continue;
    ++shortened;
    CHECK(has(brief, "memtune " + command.name + " --help-all has all "));
  }
  CHECK(shortened == 6);  // sweep, profile, run, fit, plan, export
  const Workspace place;
  CHECK(place.memtune("sweep --help-all").out.size() > 2 * place.memtune("sweep --help").out.size());
}

TEST_CASE("completion prints the script that is installed for a shell") {
  const Workspace place;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Ended ended = place.memtune("completion " + shell);
    CHECK(ended.code == 0);
    CHECK(has(ended.out, "memtune"));
    CHECK(has(ended.out, "completion"));  // the command itself is offered
  }
  CHECK(has(place.memtune("completion tcsh").err, "SHELL: unknown value 'tcsh'"));
}

TEST_CASE("options are under headings and the most common come first") {
  const std::string help = Workspace().memtune("sweep --help-all").out;
  size_t last = 0;
  for (const char* heading :
       {"\nModel and inputs:\n  --model FILE|PROFILE  ", "\nTrials:\n", "\nAnswer:\n", "\nTraining:\n",
        "\nMeasuring:\n", "\nOffloading:\n", "\nOptions:\n", "\nCommon options:\n"}) {
    CAPTURE(heading);
    const size_t at = help.find(heading);
    REQUIRE(at != std::string::npos);
    CHECK(at >= last);
    last = at;
  }
}

TEST_CASE("a long example continues after a backslash and stays valid shell") {
  CHECK(cli::wrap_command("memtune sweep --model m.pt --input 'x: float32' --loss mse", 40) ==
        "memtune sweep --model m.pt \\\n    --input 'x: float32' --loss mse");
  CHECK(cli::wrap_command("memtune sweep", 40) == "memtune sweep");
}

TEST_CASE("help and version also work under the names that other tools use") {
  const Workspace place;
  const std::string help = place.memtune("--help").out, sweep = place.memtune("sweep --help").out;
  CHECK(has(help, "\nCommands:\n  sweep "));
  CHECK(place.memtune("help").out == help);
  CHECK(place.memtune("-h").out == help);
  CHECK(place.memtune("help sweep").out == sweep);
  const std::string version = place.memtune("--version").out;
  CHECK(version.starts_with("memtune "));
  CHECK(place.memtune("-V").out == version);
  CHECK(place.memtune("version").out == version);
}

TEST_CASE("strategies shows the named one by kind or as typed for a sweep") {
  const Workspace place;
  const std::string one = place.memtune("strategies checkpoint:op").out;
  CHECK(one.starts_with("checkpoint:op\n    "));
  CHECK_FALSE(has(one, "checkpoint:full\n"));
  CHECK(place.memtune("strategies checkpoint:op,inputs=host").out == one);
  CHECK(has(place.memtune("strategies checkpoint:every=2").out, "checkpoint:every=n\n"));
  CHECK(has(place.memtune("strategies checkpoint:every").out, "checkpoint:every=n\n"));
  const std::string both = place.memtune("strategies checkpoint:cheap+offload:stream,fraction=0.4").out;
  CHECK(has(both, "checkpoint:cheap\n"));
  CHECK(has(both, "offload:stream\n"));
}

TEST_CASE("strategies lists those of a family and all by family") {
  const Workspace place;
  const std::string all = place.memtune("strategies").out;
  CHECK(has(all, "\n\nActivation checkpointing: recompute in backward\n\ncheckpoint:full\n"));
  CHECK(has(all, "\n\nActivation offloading: copy to CPU memory or disk, and back in backward\n\noffload:sync\n"));
  const std::string offloading = place.memtune("strategies offload").out;
  CHECK(has(offloading, "offload:group\n"));
  CHECK(has(offloading, "\n\nCheckpointing and offloading of other engines\n\noffload:torchtune\n"));
  CHECK_FALSE(has(offloading, "checkpoint:full\n"));
}

TEST_CASE("doctor and strategies take --json as sweep does") {
  const Workspace place;
  const std::string checks = place.memtune("doctor -q --device cpu --json -").out;
  CHECK(nlohmann::json::parse(checks).at("checks").size() > 2);
  CHECK(place.memtune("doctor -q --device cpu --json").out == checks);
  place.memtune("doctor -q --device cpu --json checks.json");
  CHECK(test::slurp(place.folder.path / "checks.json") == checks);
  const Ended one = place.memtune("strategies checkpoint:op --json -");
  CHECK(nlohmann::json::parse(one.out).at("strategies").size() == 1);
}

}  // namespace memtune::help_test
