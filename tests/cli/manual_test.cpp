// Manual pages and completion are generated from the flags. These tests compare both with the App, which defines what
// is parsed.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/completion.h"
#include "cli/manual_page.h"
#include "cli/model_flags.h"
#include "core/base/text.h"
#include "core/base/view_options.h"

namespace memtune::manual_test {

using namespace memtune;

namespace {

struct CommandLine {
  cli::Action action;
  std::unique_ptr<CLI::App> app = cli::make_app(action);
  std::vector<cli::CommandWords> words = cli::command_words(*app);

  const cli::CommandWords& of(const std::string& name) const {
    return *std::ranges::find(words, name, &cli::CommandWords::name);
  }
};

// All long flags of a command, from the App. The viewer's flags come from its table.
std::vector<std::string> flags(const CLI::App& command) {
  std::vector<std::string> names;
  if (command.get_prefix_command()) {
    for (const ViewCommandOption& option : view_options()) names.push_back(option.name);
    return names;
  }
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The text from `begin` to the next `end`.
std::string section(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t start = text.find(begin);
  if (start == std::string::npos) return "";
  return text.substr(start, text.find(end, start + begin.size()) - start);
}

// The lines of `text` that contain `part`.
std::string lines(const std::string& text, const std::string& part) {
  std::string found;
  for (const std::string& line : split(text, '\n'))
    if (line.find(part) != std::string::npos) found += line + "\n";
  return found;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string with_hyphens(const std::string& name) {
  std::string result;
  for (const char c : name) result += c == '-' ? std::string("\\-") : std::string(1, c);
  return result;
}

}  // namespace

TEST_CASE("every flag of every command is in its manual page and in the completion of each shell") {
  const CommandLine line;
  const std::string bash = cli::bash_completion(line.words), zsh = cli::zsh_completion(line.words),
                    fish = cli::fish_completion(line.words);
  size_t seen = 0;
  for (const CLI::App* command : line.app->get_subcommands({})) {
    const std::string name = command->get_name();
    const std::string page = cli::manual_page(line.of(name), line.words, "2026-01-31");
    const std::string in_bash = section(bash, "    " + name + ") kind", ";;");
    const std::string in_zsh = section(zsh, "    " + name + ")\n", ";;");
    const std::string in_fish = lines(fish, "'__fish_seen_subcommand_from " + name + "'");
    for (const std::string& flag : flags(*command)) {
      CAPTURE(name);
      CAPTURE(flag);
      ++seen;
      CHECK(has(page, "\\fB" + with_hyphens(flag) + "\\fR"));
      CHECK((has(in_bash, flag + " ") || has(in_bash, flag + "'")));
      CHECK((has(in_zsh, flag + "=[") || has(in_zsh, flag + "[")));
      CHECK(has(in_fish, " -l " + flag.substr(2) + " "));
    }
  }
  CHECK(line.words.size() == line.app->get_subcommands({}).size() + 1);
  CHECK(seen > 80);
}

TEST_CASE("completion offers strategies and formats and trainers by name") {
  const CommandLine line;
  const std::string bash = cli::bash_completion(line.words), fish = cli::fish_completion(line.words);
  for (const std::string& strategy : cli::strategy_words()) {
    CHECK(has(lines(bash, "'sweep --strategy'"), strategy));
    CHECK(has(lines(fish, "-l strategy"), strategy));
  }
  CHECK(has(lines(bash, "'report --format'"), "memory-snapshot"));
  CHECK(has(lines(bash, "'export --trainer'"), "torchtune"));
  CHECK(has(lines(bash, "'view --theme'"), "dark light"));
  CHECK(std::ranges::count(cli::strategy_words(), "checkpoint:every=2") == 1);
}

TEST_CASE("a manual page has the text of the help and escapes roff requests") {
  const CommandLine line;
  const std::string page = cli::manual_page(line.of("plan"), line.words, "2026-01-31");
  CHECK(page.starts_with(".TH memtune\\-plan 1 2026-01-31 \"memtune "));
  CHECK(has(page, ".SH SYNOPSIS\n\\fBmemtune plan\\fR [\\fIOPTIONS\\fR] [\\fIvalidate\\fR] [\\fIFILE\\fR]\n"));
  CHECK(has(page, "memtune plan validate mine.json \\-\\-model model.pt"));
  CHECK(has(page, ".nf\n  {\"version\": 1, \"name\": \"mine\""));  // the example plan keeps its lines
  const cli::CommandWords dots = {"dots", "Begins", ".with a dot\n'and a quote\nand a \\ backslash", {}, {}};
  const std::string escaped = cli::manual_page(dots, line.words, "2026-01-31");
  CHECK(has(escaped, "\n\\&.with a dot\n\\&'and a quote\nand a \\e backslash\n"));
}

TEST_CASE("the program's page lists the commands and the page of strategies lists every strategy") {
  const CommandLine line;
  const std::string page = cli::manual_page(line.words[0], line.words, "2026-01-31");
  for (const CLI::App* command : line.app->get_subcommands({}))
    CHECK(has(page, "\\fBmemtune\\-" + command->get_name() + "\\fR(1)"));
  CHECK(has(cli::manual_page(line.of("strategies"), line.words, "2026-01-31"), "\\fBcheckpoint:cheap\\fR"));
}

}  // namespace memtune::manual_test
