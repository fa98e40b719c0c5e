#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cli/app.h"
#include "core/base/file.h"

namespace memtune::cli {
namespace {

namespace fs = std::filesystem;

// In the same folder as memtune in a build, in ../libexec/memtune in an installation.
fs::path viewer() {
  const fs::path folder = executable_path().parent_path();
  for (const fs::path& path : {folder / "memtune-view", folder.parent_path() / "libexec/memtune/memtune-view"}) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  throw UsageError(
      "the viewer is not built: scripts/memtune view fetches what it needs and builds it, or configure with "
      "-DMEMTUNE_VIEWER_SOURCES=FOLDER; memtune report --html needs no viewer");
}

// All arguments go to the viewer, even --help.
int run_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {viewer().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  throw system_error("cannot start " + words[0], errno);
}

}  // namespace

void add_view(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("view", "Look at a sweep or a trace in a window, or as a picture of it.");
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, &action] { action = [command] { return run_command(command->remaining()); }; });
}

}  // namespace memtune::cli
