#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/app.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kDescription[] = R"(Look at a sweep or a trace in a window, or as a picture of it.

Examples:
  memtune view
  memtune view ./memtune-run other-run
  memtune view trace.mttrace
  memtune view --screenshot peak.png --at peak --theme light --scale 2 --size 2400x1400)";

struct ViewFlags {
  std::vector<std::string> paths;
  std::vector<std::string> arguments;  // of memtune-view: "--theme=light"
};

// Beside memtune in a build, in ../libexec/memtune where it is installed.
fs::path viewer() {
  const fs::path folder = executable_path().parent_path();
  for (const fs::path& path : {folder / "memtune-view", folder.parent_path() / "libexec/memtune/memtune-view"}) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  throw UsageError(
      "the viewer is not built: scripts/memtune view fetches what it needs and builds it, "
      "or configure with -DMEMTUNE_VIEWER_SOURCES=FOLDER; memtune report --html needs no viewer");
}

int run_command(const ViewFlags& flags) {
  if (flags.paths.size() > 2) throw UsageError("at most two runs: '" + flags.paths[2] + "' is a third");
  std::vector<std::string> arguments = {viewer().string()};
  arguments.insert(arguments.end(), flags.arguments.begin(), flags.arguments.end());
  if (flags.paths.empty()) arguments.emplace_back("./memtune-run");
  arguments.insert(arguments.end(), flags.paths.begin(), flags.paths.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  throw IoError("cannot start " + arguments[0] + ": " + std::strerror(errno));
}

struct ViewOption {
  const char *name, *type, *help;
};
constexpr std::array<ViewOption, 8> kOptions = {{
    {"--screenshot", "FILE", "write a PNG instead of opening a window; needs no display"},
    {"--size", "WIDTHxHEIGHT", "of window or picture, in pixels (default: 1600x900)"},
    {"--scale", "FACTOR", "of text and all else (default: the display's)"},
    {"--theme", "NAME", "dark or light (default: dark)"},
    {"--tab", "NAME", "timeline, compare, plan or findings (default: timeline)"},
    {"--at", "PLACE", "milliseconds, \"peak\", or a value whose trip lights up"},
    {"--trial", "NAME", "strategy or number (default: the recommended)"},
    {"--trial2", "NAME", "the one it is compared with"},
}};

}  // namespace

void add_view(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ViewFlags>();
  CLI::App* command = app.add_subcommand("view", kDescription);
  command->add_option("run", flags->paths, "folders of sweeps, or traces; one or two (default: ./memtune-run)")
      ->type_name("RUN|TRACE");
  for (const ViewOption& option : kOptions) {
    const std::string name = option.name;
    command
        ->add_option_function<std::string>(
            name, [flags, name](const std::string& value) { flags->arguments.push_back(name + "=" + value); },
            option.help)
        ->type_name(option.type);
  }
  command->callback([flags, &action] { action = [flags] { return run_command(*flags); }; });
}

}  // namespace memtune::cli
