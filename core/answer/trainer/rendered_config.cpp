#include "core/answer/trainer/rendered_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "core/answer/trainer/config_key_line_numbers.h"
#include "core/answer/trainer/toml_text.h"
#include "core/answer/trainer/yaml_text.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

// Without the user's config, a removed top-level key is written with its default, because the config may set it. Nested
// keys are omitted, because their mapping is replaced whole.
Changes stated(const Changes& changes, const EditableUserTrainerSettings& own) {
  Changes all = changes;
  for (auto& [key, value] : all)
    if (!value && key.find('.') == std::string::npos) value = print_json(own.fallback(key));
  return all;
}

std::string in_python(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.is_null() ? "None" : print_json(value);
}

// A line for each call: name = dict(key=value)  # of(..., **name)
std::vector<std::string> call_lines(const TrainerProfile& profile, const Changes& changes) {
  const auto is_of = [](const KeywordArgumentSettingsCall& call, const std::string& key) {
    return std::ranges::count(call.keys, key) > 0;
  };
  const auto is_of_any = [&](const std::string& key) {
    return std::ranges::any_of(profile.calls,
                               [&](const KeywordArgumentSettingsCall& call) { return is_of(call, key); });
  };
  std::vector<std::string> lines;
  for (const KeywordArgumentSettingsCall& call : profile.calls) {
    std::vector<std::string> arguments;
    for (const auto& [key, value] : changes) {
      if (!value || !(is_of(call, key) || (call.keys.empty() && !is_of_any(key)))) continue;
      const json wanted = parse_json(*value);
      const auto known = wanted.is_string() ? profile.program.find(wanted.get<std::string>()) : profile.program.end();
      arguments.push_back(key + "=" + (known == profile.program.end() ? in_python(wanted) : known->second));
    }
    if (!arguments.empty())
      lines.push_back(call.name + " = dict(" + join(arguments, ", ") + ")  # " + call.of + "(..., **" + call.name +
                      ")");
  }
  return lines;
}

std::vector<std::string> program_lines(const TrainerProfile& profile, const Changes& changes) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : changes) {
    if (!value) continue;
    const json wanted = parse_json(*value);
    const auto known = wanted.is_string() && profile.settings.contains(key)
                           ? profile.program.find(wanted.get<std::string>())
                           : profile.program.end();
    const bool imported = known != profile.program.end() && known->second.ends_with(')');
    if (imported) {
      const size_t hole = profile.import.find('{');
      lines.insert(lines.begin(), profile.import.substr(0, hole) + split(known->second, '.').front());
    }
    lines.push_back("config." + key + " = " + (known == profile.program.end() ? in_python(wanted) : known->second));
  }
  return lines;
}

std::vector<std::string> flag_lines(const EditableUserTrainerSettings& own, const Changes& changes) {
  std::vector<std::string> lines;
  for (const std::string& word : own.arguments(changes)) {
    if (word.starts_with("--") || lines.empty())
      lines.push_back(word);
    else
      lines.back() += " " + word;
  }
  return lines;
}

std::string text_of(const std::vector<std::string>& comments, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : comments) text += line + "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Puts the comments above the first of the changed settings.
std::string commented(const std::string& text, const EditableUserTrainerSettings& own, const Changes& changes,
                      const std::vector<std::string>& comments) {
  const bool yaml = own.form() == "yaml";
  const auto read = yaml ? read_whole_yaml : read_whole_toml;
  const ConfigKeyLineNumbers lines = yaml ? lines_of_yaml(text, own.name()) : lines_of_toml(text, own.name());
  size_t first = 0;
  for (const auto& [key, value] : changes) {
    const Path path = own.path_of(key);
    const size_t line = yaml || value ? lines.line_of(yaml ? std::span(path).first(1) : path) : 0;
    if (line > 0 && (first == 0 || line < first)) first = line;
  }
  std::string written = with_comments(text, comments, first);
  if (read(written, own.name()) != read(text, own.name()))  // a line of a text looks like a comment
    throw UsageError(own.name() + ": comments cannot be put into it: a text has lines with '#' or a key in it");
  return written;
}

}  // namespace

RenderedConfig render_config(const TrainerProfileAndPackageVersions& trainer, const EditableUserTrainerSettings& own,
                             const Changes& changes, const std::vector<std::string>& comments) {
  const TrainerProfile& profile = trainer.profile;
  if (!profile.calls.empty()) return {text_of(comments, call_lines(profile, changes))};
  if (!profile.program.empty()) return {text_of(comments, program_lines(profile, changes))};
  if (profile.forms.empty()) return {text_of(comments, flag_lines(own, changes))};
  if (own.has_config()) {
    const std::string text = own.with(changes);
    return own.form() == "json" ? RenderedConfig{text, false} : RenderedConfig{commented(text, own, changes, comments)};
  }
  const std::string& form = profile.forms.front();
  const EditableUserTrainerSettings empty(profile, form == "json" ? "{}" : "", "keys." + form, {}, trainer.releases);
  const std::string text = empty.with(form == "json" ? changes : stated(changes, empty));
  if (form == "json") return {print_json(parse_json(text), 2) + "\n", false};
  return {text_of(comments, {}) + text};
}

}  // namespace memtune::trainer
