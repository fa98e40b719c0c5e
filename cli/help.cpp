#include "cli/help.h"

#include <algorithm>

#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::cli {
namespace {

constexpr int kMinWidth = 40, kMaxWidth = 110;  // longer lines are hard to read, even in a wide terminal
constexpr int kMaxColumn = 26;                  // last column where a description may begin
constexpr size_t kBriefExamples = 3;

// A term and its text to the right of it, or below it if the term is too long.
std::string entry(const std::string& term, const std::string& text, int column, int width) {
  std::string lines = "  " + term;
  if (display_width(lines) + 2 > column) lines += "\n";
  bool first = !lines.ends_with('\n');
  for (const std::string& line : wrap(text, width - column)) {
    lines = first ? pad_right(lines, column) : lines + std::string(static_cast<size_t>(column), ' ');
    lines += line + "\n";
    first = false;
  }
  return lines;
}

int column_for(const std::vector<std::string>& terms) {
  int column = 0;
  for (const std::string& term : terms) {
    if (display_width(term) + 4 <= kMaxColumn) column = std::max(column, display_width(term) + 4);
  }
  return column == 0 ? kMaxColumn : column;
}

std::string indented(const std::string& lines) {
  std::string text;
  for (const std::string& line : split(lines, '\n')) text += "  " + line + "\n";
  return text;
}

std::string term_of(const OptionWords& option) {
  return join(option.names, ", ") + (option.value.empty() ? "" : " " + option.value);
}

std::string options(const CommandWords& command, int width) {
  std::vector<std::string> terms;
  for (const OptionWords& option : command.options) terms.push_back(term_of(option));
  const int column = column_for(terms);
  std::string text, group;
  for (size_t i = 0; i < terms.size(); ++i) {
    const OptionWords& option = command.options[i];
    if (option.group != group) text += "\n" + (group = option.group) + ":\n";
    text += entry(terms[i], option.help, column, width);
  }
  return text;
}

std::string essential_options(const CommandWords& command, int width) {
  std::string text = "\nOptions:\n";
  for (const OptionWords& option : command.options)
    if (option.essential) text += entry(term_of(option), option.help, kMaxColumn, width);
  return text;
}

std::string usage(const CommandWords& command) {
  if (command.name == "memtune") return "Usage: memtune COMMAND [OPTIONS]\n";
  std::string text = "Usage: memtune " + command.name + " [OPTIONS]";
  for (const OptionWords& option : command.options) {
    if (option.alone) text += option.required ? " " + option.names.front() : " [" + option.names.front() + "]";
  }
  return text + (command.behind.empty() ? "" : " [" + command.behind + "]") + "\n";
}

std::string commands(std::span<const CommandWords> all, int width) {
  std::string text = "\nCommands:\n";
  for (const CommandWords& command : all.subspan(1)) text += entry(command.name, command.summary, 14, width);
  return text;
}

// An example's remark follows its command after several blanks. If it does not fit on the line, it is printed above.
std::string example_lines(const std::string& example, int width) {
  const size_t end = std::min(example.find("   "), example.size());
  const std::string command = example.substr(0, end), remark = trim(example.substr(end));
  if (remark.empty()) return indented(wrap_command(command, width));
  const std::string beside = pad_right(command, 36) + "  # " + remark;
  if (display_width(beside) <= width) return indented(beside);
  return indented("# " + remark) + indented(wrap_command(command, width));
}

std::string examples(std::span<const std::string> examples, int width) {
  if (examples.empty()) return "";
  std::string text = "\nExamples:\n";
  for (const std::string& example : examples) text += example_lines(example, width - 2);
  return text;
}

// Indented lines are kept; other lines are filled.
std::string paragraphs(const std::string& text, int width) {
  std::string result, filled;
  const auto flush = [&] {
    if (filled.empty()) return;
    for (const std::string& line : wrap(filled, width)) result += line + "\n";
    filled.clear();
  };
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && !line.starts_with(' ')) {
      filled += (filled.empty() ? "" : " ") + line;
      continue;
    }
    flush();
    result += line + "\n";
  }
  flush();
  return result;
}

// Words that stay on one line: quoted words with their blanks, an option with its value.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false, within = false;
  for (const char c : line) {
    if (c == ' ' && !quoted) {
      within = false;
      continue;
    }
    quoted ^= c == '\'';
    if (!within) {
      const bool value = !words.empty() && words.back().starts_with('-') && words.back().find(' ') == std::string::npos;
      if (value && c != '-')
        words.back() += ' ';
      else
        words.emplace_back();
    }
    words.back() += c;
    within = true;
  }
  return words;
}

std::string head(const CommandWords& command, std::span<const CommandWords> all, int width) {
  std::string text;
  for (const std::string& line : wrap(command.summary + ".", width)) text += line + "\n";
  text += "\n" + usage(command);
  return command.name == "memtune" ? text + commands(all, width) : text;
}

std::string full_help(const CommandWords& command, std::span<const CommandWords> all, int width) {
  const std::string text = head(command, all, width) + examples(command.examples, width) + options(command, width);
  return command.text.empty() ? text : text + "\n" + paragraphs(command.text, width);
}

std::string brief_help(const CommandWords& command, std::span<const CommandWords> all, int width) {
  const auto examples_here = std::span(command.examples).first(std::min(command.examples.size(), kBriefExamples));
  return head(command, all, width) + examples(examples_here, width) + essential_options(command, width) + "\nmemtune " +
         command.name + " --help-all has all " + std::to_string(command.options.size()) +
         " options and more examples.\n";
}

}  // namespace

std::string wrap_command(const std::string& line, int width) {
  if (display_width(line) <= width) return line;
  std::string lines, current;
  for (const std::string& word : shell_words(line)) {
    if (!current.empty() && display_width(current) + display_width(word) + 3 > width) {
      lines += current + " \\\n";
      current = "    " + word;
    } else {
      current += (current.empty() ? "" : " ") + word;
    }
  }
  return lines + current;
}

std::string help_text(const CommandWords& command, std::span<const CommandWords> all, int width, HelpDetail detail) {
  width = std::clamp(width, kMinWidth, kMaxWidth);
  const std::string full = full_help(command, all, width);
  if (detail == HelpDetail::full || std::ranges::count(full, '\n') <= kShortHelpLines) return full;
  return brief_help(command, all, width);
}

}  // namespace memtune::cli
