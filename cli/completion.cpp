#include "cli/completion.h"

#include "core/base/text.h"

namespace memtune::cli {
namespace {

// Single-quoted, for all three shells.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string replaced(const std::string& text, const std::string& of, const std::string& by) {
  std::string result;
  for (const char c : text) result += of.find(c) == std::string::npos ? std::string(1, c) : by + c;
  return result;
}

std::vector<std::string> names(std::span<const CommandWords> commands) {
  std::vector<std::string> list;
  for (const CommandWords& command : commands) list.push_back(command.name);
  return list;
}

// --- bash ---

// bash splits words at ':' and '=', which strategies contain, and replaces only the part after the last one.
constexpr char kBash[] = R"bash(_memtune() {
  local words word previous kind= choices= options=
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} != *[[:blank:]] ]] || words+=('')
  word=${words[-1]}
  if ((${#words[@]} == 2)); then
    COMPREPLY=($(compgen -W "$(_memtune_commands)" -- "$word"))
    return
  fi
  previous=${words[-2]}
  [[ $word != --*=* ]] || { previous=${word%%=*} word=${word#*=}; }
  _memtune_value "${words[1]}" "$previous"
  if [[ -z $kind ]]; then
    _memtune_options "${words[1]}"
    [[ $word != -* ]] || { kind=words choices=$options; }
  fi
  COMPREPLY=()
  [[ $kind != *words* ]] || COMPREPLY+=($(compgen -W "$choices" -- "$word"))
  [[ $kind != *file* ]] || { compopt -o filenames; COMPREPLY+=($(compgen -f -- "$word")); }
  [[ $kind != *folder* ]] || { compopt -o filenames; COMPREPLY+=($(compgen -d -- "$word")); }
  local broken=${word%"${word##*[:=]}"}
  ((${#COMPREPLY[@]} == 0)) || COMPREPLY=("${COMPREPLY[@]#"$broken"}")
}
)bash";

std::string kind(const OptionWords& option) {
  std::vector<std::string> kinds;
  if (!option.offers.empty()) kinds.push_back("words");
  if (option.takes("FILE")) kinds.push_back("file");
  if (option.takes("DIR") && !option.takes("FILE")) kinds.push_back("folder");
  return kinds.empty() ? "other" : join(kinds, "+");
}

std::string bash_value(const std::string& pattern, const OptionWords& option) {
  return "    " + pattern + ") kind=" + kind(option) + " choices=" + quoted(join(option.offers, " ")) + " ;;\n";
}

std::string bash_values(const CommandWords& command) {
  std::string text;
  for (const OptionWords& option : command.options) {
    if (option.alone || option.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back("'" + command.name + " " + name + "'");
    text += bash_value(join(patterns, " | "), option);
  }
  return text;
}

// The positional arguments and the names of options.
std::string bash_options(const CommandWords& command) {
  std::vector<std::string> list, words, kinds;
  for (const OptionWords& option : command.options) {
    if (!option.alone) list.insert(list.end(), option.names.begin(), option.names.end());
    if (!option.alone || kind(option) == "other") continue;
    kinds.push_back(kind(option));
    words.insert(words.end(), option.offers.begin(), option.offers.end());
  }
  return "    " + command.name + ") kind=" + join(kinds, "+") + " choices=" + quoted(join(words, " ")) +
         " options=" + quoted(join(list, " ")) + " ;;\n";
}

// --- zsh ---

// The completion of an option's value or of a positional argument.
std::string zsh_value(const OptionWords& option) {
  std::vector<std::string> ways;
  if (!option.offers.empty()) ways.push_back("(" + replaced(join(option.offers, " "), ":", "\\") + ")");
  if (option.takes("FILE")) ways.push_back("_files");
  if (option.takes("DIR") && !option.takes("FILE")) ways.push_back("_files -/");
  const std::string message = replaced(option.value.empty() ? option.names.front() : option.value, ":", "\\");
  if (ways.size() < 2) return ":" + message + ":" + (ways.empty() ? " " : ways.front());
  return ":" + message + ": _memtune_or_files " + join(option.offers, " ");  // the blank stops zsh from adding options
}

std::string zsh_option(const OptionWords& option) {
  if (option.alone) return quoted((option.repeats ? "*" : "") + zsh_value(option));
  const std::string help = "[" + replaced(option.help, "[]:\\", "\\") + "]";
  const std::string tail = option.value.empty() ? help : help + zsh_value(option);
  std::vector<std::string> words;
  for (const std::string& name : option.names) {
    std::string spec = option.repeats ? "*" : "(" + join(option.names, " ") + ")";
    spec += name;
    if (!option.value.empty()) spec += name.starts_with("--") ? "=" : "+";
    words.push_back(quoted(spec + tail));
  }
  return join(words, " \\\n        ");
}

std::string zsh_command(const CommandWords& command) {
  std::vector<std::string> specs;
  for (const OptionWords& option : command.options) specs.push_back(zsh_option(option));
  return "    " + command.name + ")\n      _arguments \\\n        " + join(specs, " \\\n        ") + " ;;\n";
}

// --- fish ---

std::string fish_value(const OptionWords& option) {
  std::vector<std::string> words = option.offers;
  if (option.takes("DIR") && !option.takes("FILE")) words.emplace_back("(__fish_complete_directories)");
  std::string text = option.takes("FILE") ? " -F" : " -f";
  if (!option.alone) text += " -r";
  if (!words.empty()) text += " -a " + quoted(join(words, " "));
  return text;
}

std::string fish_option(const std::string& condition, const OptionWords& option) {
  std::string text = "complete -c memtune -n " + quoted(condition);
  if (option.alone) return text + fish_value(option) + "\n";
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.value.empty()) text += fish_value(option);
  return text + " -d " + quoted(option.help) + "\n";
}

}  // namespace

std::string bash_completion(std::span<const CommandWords> all) {
  std::string values, options;
  for (const CommandWords& command : all.subspan(1)) {
    values += bash_values(command);
    options += bash_options(command);
  }
  const std::string commands = join(names(all.subspan(1)), " ");
  std::vector<std::string> own;
  for (const OptionWords& option : all[0].options) own.insert(own.end(), option.names.begin(), option.names.end());
  return "# bash completion for memtune\n\n_memtune_commands() { echo " + quoted(commands + " " + join(own, " ")) +
         "; }\n\n_memtune_value() {\n  case \"$1 $2\" in\n" + values +
         "  esac\n}\n\n_memtune_options() {\n  case $1 in\n" + options + "  esac\n}\n\n" + kBash +
         "\ncomplete -o default -F _memtune memtune\n";
}

std::string zsh_completion(std::span<const CommandWords> all) {
  std::string names, commands;
  for (const CommandWords& command : all.subspan(1)) {
    names += "    " + quoted(command.name + ":" + command.summary) + "\n";
    commands += zsh_command(command);
  }
  std::vector<std::string> own;
  for (const OptionWords& option : all[0].options) own.push_back(zsh_option(option));
  return "#compdef memtune\n\n_memtune_or_files() { _alternative \"words:word:($*)\" 'files:file:_files' }\n\n"
         "_memtune() {\n  local context state state_descr line commands\n  typeset -A opt_args\n"
         "  commands=(\n" +
         names + "  )\n  _arguments -C " + join(own, " \\\n    ") +
         " \\\n    '1:command:->command' '*::argument:->argument'\n"
         "  [[ $state != command ]] || _describe -t commands command commands\n"
         "  [[ $state == argument ]] || return\n  case $words[1] in\n" +
         commands + "  esac\n}\n\n_memtune \"$@\"\n";
}

std::string fish_completion(std::span<const CommandWords> all) {
  std::string text = "# fish completion for memtune\n\ncomplete -c memtune -f\n";
  for (const OptionWords& option : all[0].options) text += fish_option("__fish_use_subcommand", option);
  for (const CommandWords& command : all.subspan(1)) {
    text += "complete -c memtune -n __fish_use_subcommand -a " + command.name + " -d " + quoted(command.summary) + "\n";
    for (const OptionWords& option : command.options)
      text += fish_option("__fish_seen_subcommand_from " + command.name, option);
  }
  return text;
}

}  // namespace memtune::cli
