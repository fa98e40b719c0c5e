#include "cli/manual_page.h"

#include "core/base/text.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::cli {
namespace {

// Escapes text between macros. A hyphen stays a hyphen instead of a dash.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else {
      if (c == '-') result += '\\';
      result += c;
    }
  }
  return result;
}

// A line that begins with a dot or a quote would be a roff request.
std::string line(const std::string& text) {
  return (text.starts_with('.') || text.starts_with('\'') ? "\\&" : "") + escaped(text) + "\n";
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string heading(const std::string& text) { return ".SH " + text + "\n"; }

// Paragraphs are filled; indented lines are kept.
std::string paragraphs(const std::string& text) {
  std::string page;
  bool indented = false, broken = false;
  for (const std::string& words : split(text, '\n')) {
    if (words.empty()) {
      broken = true;
      continue;
    }
    const bool now = words.starts_with("  ");
    if (indented && !now) page += ".fi\n";
    if ((broken || indented) && !now && !page.empty()) page += ".PP\n";
    if (!indented && now) page += ".PP\n.nf\n";
    page += line(now ? words : trim(words));
    indented = now;
    broken = false;
  }
  return page + (indented ? ".fi\n" : "");
}

std::string option_entry(const OptionWords& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(option.alone ? italic(name) : bold(name));
  std::string page = ".TP\n" + join(names, ", ");
  if (!option.alone && !option.value.empty()) page += " " + italic(option.value);
  return page + "\n" + line(option.help);
}

std::string options(const CommandWords& command) {
  std::string page, group;
  const bool grouped = !command.options.empty() && command.options.front().group != command.options.back().group;
  for (const OptionWords& option : command.options) {
    if (grouped && option.group != group) page += ".SS " + (group = option.group) + "\n";
    page += option_entry(option);
  }
  return heading("OPTIONS") + page;
}

std::string synopsis(const CommandWords& command) {
  const bool program = command.name == "memtune";
  std::string page = heading("SYNOPSIS") + bold(program ? "memtune" : "memtune " + command.name);
  if (program) page += " " + italic("COMMAND");
  page += " [" + italic("OPTIONS") + "]";
  for (const OptionWords& option : command.options) {
    if (!option.alone) continue;
    const std::string name = italic(option.names.front());
    page += option.required ? " " + name : " [" + name + "]";
  }
  if (!command.behind.empty()) page += " [" + escaped(command.behind) + "]";
  return page + "\n";
}

std::string commands(std::span<const CommandWords> all) {
  std::string page = heading("COMMANDS");
  for (const CommandWords& command : all.subspan(1))
    page += ".TP\n" + bold(manual_name(command)) + "(1)\n" + line(command.summary + ".");
  return page;
}

std::string strategies() {
  std::string page = heading("STRATEGIES");
  for (const plan::StrategyInfo& strategy : plan::strategies()) {
    page += ".TP\n" + bold(std::string(strategy.name)) + "\n" + line(std::string(strategy.help));
    for (const plan::StrategyParameterInfo& parameter : strategy.parameters) {
      page += ".RS\n.TP\n" + bold(std::string(parameter.name) + "=") + italic(std::string(values_text(parameter))) +
              "\n" + line(std::string(parameter.help) + " (default: " + std::string(parameter.default_value) + ")") +
              ".RE\n";
    }
  }
  return page;
}

std::string examples(const CommandWords& command) {
  if (command.examples.empty()) return "";
  std::string page = heading("EXAMPLES") + ".nf\n";
  for (const std::string& example : command.examples) page += line(example);
  return page + ".fi\n";
}

std::string see_also(const CommandWords& command, std::span<const CommandWords> all) {
  std::vector<std::string> pages;
  for (const CommandWords& other : all)
    if (other.name != command.name) pages.push_back(bold(manual_name(other)) + "(1)");
  return heading("SEE ALSO") + join(pages, ",\n") + "\n";
}

}  // namespace

std::string manual_name(const CommandWords& command) {
  return command.name == "memtune" ? command.name : "memtune-" + command.name;
}

std::string manual_page(const CommandWords& command, std::span<const CommandWords> all, const std::string& date) {
  std::string page = ".TH " + escaped(manual_name(command)) + " 1 " + date + " \"memtune " MEMTUNE_VERSION "\"\n";
  const bool named = command.summary.starts_with("memtune ");  // "memtune \- measures ..."
  page += heading("NAME") + escaped(manual_name(command)) + " \\- " + line(command.summary.substr(named ? 8 : 0));
  page += synopsis(command);
  page += heading("DESCRIPTION") + line(command.summary + ".");
  if (!command.text.empty()) page += ".PP\n" + paragraphs(command.text);
  if (command.name == "memtune") page += commands(all);
  page += options(command);
  if (command.name == "strategies") page += strategies();
  return page + examples(command) + see_also(command, all);
}

}  // namespace memtune::cli
