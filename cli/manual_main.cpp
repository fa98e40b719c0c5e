// memtune-manual FOLDER: writes manual pages and completion scripts for installation, and the reference of the commands
// in Markdown. The build runs it.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "cli/app.h"
#include "cli/completion.h"
#include "cli/manual_page.h"
#include "cli/reference_page.h"
#include "core/base/file.h"

int main(int argc, char** argv) try {
  using namespace memtune;
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  cli::Action action;
  const auto app = cli::make_app(action);
  const std::vector<cli::CommandWords> commands = cli::command_words(*app);
  for (const char* name : {"man1", "bash", "zsh", "fish"}) std::filesystem::create_directories(folder / name);
  for (const cli::CommandWords& command : commands)
    write_file(folder / "man1" / (cli::manual_name(command) + ".1"), cli::manual_page(command, commands, MEMTUNE_DATE));
  write_file(folder / "cli.md", cli::reference_page(commands));
  write_file(folder / "bash/memtune", cli::bash_completion(commands));
  write_file(folder / "zsh/_memtune", cli::zsh_completion(commands));
  write_file(folder / "fish/memtune.fish", cli::fish_completion(commands));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "memtune-manual: %s\n", error.what());
  return 1;
}
