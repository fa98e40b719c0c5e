#include "cli/reference_page.h"

#include "core/base/text.h"

namespace memtune::cli {
namespace {

std::string code(const std::string& text) { return "`" + text + "`"; }

// Text of a table's cell, without characters that Markdown would read as marks.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<' || c == '[' || c == '_') result += '\\';
    result += c;
  }
  return result;
}

// Lines that are indented in the help are a block of code here.
std::string markdown_paragraphs(const std::string& text) {
  std::string page;
  bool block = false;
  for (const std::string& line : split(text, '\n')) {
    const bool indented = line.starts_with("  ");
    if (indented != block && !line.empty()) {
      page += "\n";
      block = indented;
    }
    page += line.empty() ? "\n" : (indented ? "  " + line : trim(line)) + "\n";
  }
  return page;
}

std::string option_row(const OptionWords& option) {
  std::string text = join(option.names, ", ");
  if (!option.alone && !option.value.empty()) text += " " + option.value;
  return "| " + code(join(split(text, '|'), "\\|")) + " | " + cell(option.help) + " |\n";
}

std::string markdown_options(const CommandWords& command) {
  std::string page, group;
  for (const OptionWords& option : command.options) {
    if (option.group != group) {
      group = option.group;
      page += "\n| " + group + " | |\n|---|---|\n";
    }
    page += option_row(option);
  }
  return page;
}

std::string markdown_examples(const CommandWords& command) {
  if (command.examples.empty()) return "";
  std::string page = "\nExamples:\n\n";
  for (const std::string& example : command.examples) page += "    " + trim(example) + "\n";
  return page;
}

}  // namespace

std::string reference_page(std::span<const CommandWords> commands) {
  std::string page =
      "# Commands\n\nEvery command and option, as `--help-all` prints them. The build writes this page.\n";
  for (const CommandWords& command : commands) {
    const bool program = command.name == "memtune";
    page += "\n## " + std::string(program ? "memtune" : "memtune " + command.name) + "\n\n" + command.summary + ".\n";
    if (!command.text.empty()) page += "\n" + markdown_paragraphs(command.text);
    if (!command.behind.empty()) page += "\nAfter the options: " + code(command.behind) + ".\n";
    page += markdown_options(command) + markdown_examples(command);
  }
  return page;
}

}  // namespace memtune::cli
