#include <memory>

#include "cli/app.h"
#include "cli/command_words.h"
#include "cli/completion.h"
#include "cli/flags.h"
#include "cli/offer.h"

namespace memtune::cli {
namespace {

constexpr char kCompletionDescription[] = R"(Print the completion script of a shell.

Examples:
  memtune completion bash > ~/.local/share/bash-completion/completions/memtune
  memtune completion zsh > ~/.zfunc/_memtune
  memtune completion fish > ~/.config/fish/completions/memtune.fish)";

const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

std::string script(const std::string& shell) {
  Action unused;
  const std::vector<CommandWords> commands = command_words(*make_app(unused));
  if (shell == "bash") return bash_completion(commands);
  return shell == "zsh" ? zsh_completion(commands) : fish_completion(commands);
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", kCompletionDescription);
  offer(command->add_option("SHELL", *shell, "bash, zsh or fish")->required(), kShells)->type_name(" ");
  command->callback([shell, &action] {
    action = [shell] {
      write_output("-", script(choice_flag("SHELL", *shell, kShells)));
      return int{kDone};
    };
  });
}

}  // namespace memtune::cli
