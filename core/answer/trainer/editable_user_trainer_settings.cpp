#include "core/answer/trainer/editable_user_trainer_settings.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "core/answer/trainer/toml_text.h"
#include "core/answer/trainer/yaml_text.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

const json kUnset(json::value_t::discarded);

constexpr size_t kMaxConfigBytes = size_t{16} << 20;  // about 1000 times the size of a long config

const json& member(const json& value, std::span<const std::string> path) {
  const json* at = &value;
  for (const std::string& key : path) {
    if (!at->is_object() || !at->contains(key)) return kUnset;
    at = &(*at)[key];
  }
  return *at;
}

std::string form_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : name.substr(dot + 1);
  return ending == "yml" ? "yaml" : ending;
}

// "--key a b c": words up to the next flag.
json words_behind(const std::vector<std::string>& words, size_t at) {
  json list = json::array();
  for (++at; at < words.size() && !words[at].starts_with("--"); ++at) list.push_back(words[at]);
  return list;
}

// The settings among the words of a command: "--key value", "--key=value", "key=value". "-" is accepted for "_".
std::map<std::string, JsonText> settings_in(const std::vector<std::string>& words, const TrainerProfile& profile) {
  std::map<std::string, JsonText> found;
  const std::string& argument = profile.argument;
  const bool dashes = argument.starts_with("--");
  for (size_t i = 0; i < words.size(); ++i) {
    if (argument.empty() || (dashes && !words[i].starts_with("--"))) continue;
    std::string word = dashes ? words[i].substr(2) : words[i];
    const size_t equals = word.find('=');
    if (!dashes && equals == std::string::npos) continue;
    std::string key = word.substr(0, equals);
    if (dashes) std::ranges::replace(key, '-', '_');
    const bool behind = i + 1 < words.size() && !words[i + 1].starts_with("--");
    const auto form = profile.arguments.find(key);
    const bool list = form != profile.arguments.end() && form->second.ends_with("{words}");
    found[key] = print_json(equals != std::string::npos ? read_value(word.substr(equals + 1))
                            : list                      ? words_behind(words, i)
                            : behind                    ? read_value(words[i + 1])
                                                        : json(true));
  }
  return found;
}

bool is_of(const json& value, const std::string& kind) {
  if (kind == "bool") return value.is_boolean();
  if (kind == "int") return value.is_number_integer();
  if (kind == "number") return value.is_number();
  if (kind == "mapping") return value.is_object();
  if (kind == "list") return value.is_array();
  return kind == "text" ? value.is_string() : value == json(kind);  // otherwise one fixed word
}

std::string in_words(const std::string& kind) {
  if (kind == "bool") return "true or false";
  if (kind == "int") return "a whole number";
  if (kind == "number" || kind == "mapping" || kind == "list") return "a " + kind;
  return kind == "text" ? "text" : "'" + kind + "'";
}

// What the trainer accepts, for a value that it does not accept; "" for others.
std::string wanted_instead(const json& value, const ConfigValueSchema& setting) {
  if (std::ranges::none_of(setting.kinds, [&](const std::string& kind) { return is_of(value, kind); })) {
    std::vector<std::string> kinds;
    for (const std::string& kind : setting.kinds) kinds.push_back(in_words(kind));
    return join(kinds, " or ");
  }
  if (value.is_array() && !setting.items.empty() && !std::ranges::all_of(value, [&](const json& item) {
        return std::ranges::any_of(setting.items, [&](const std::string& known) { return item == json(known); });
      }))
    return "a list of " + join(setting.items, ", ");
  if (!value.is_number() || setting.between.empty()) return "";
  const int64_t least = setting.between.front(), greatest = setting.between.back();
  const bool bounded = setting.between.size() > 1;
  const double number = value.get<double>();
  if (number >= double(least) && (!bounded || number <= double(greatest))) return "";
  return bounded ? std::to_string(least) + " to " + std::to_string(greatest) : "at least " + std::to_string(least);
}

std::string argument_text(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.is_string() ? value.get<std::string>() : print_json(value);
}

std::string words_text(const json& value) {
  std::vector<std::string> words;
  if (value.is_array())
    for (const json& word : value) words.push_back(argument_text(word));
  return join(words, " ");
}

void replace(std::string& text, const std::string& what, const std::string& with) {
  if (const size_t at = text.find(what); at != std::string::npos) text.replace(at, what.size(), with);
}

bool has_hole(const std::string& form) { return form.find('{') != std::string::npos; }

std::string special_argument(std::string form, const json& value) {
  replace(form, "{no}", value == json(false) ? "no-" : "");
  replace(form, "{value}", argument_text(value));
  replace(form, "{words}", words_text(value));
  return form;
}

// Reads flags with special forms. "--compile.enable" and "--compile.no-enable" take no value, and "--async-save" is
// never false; "activation-checkpoint:full" is a single word.
void take_flags(std::vector<std::string>& words, const std::map<std::string, std::string>& arguments,
                std::map<std::string, JsonText>& found) {
  for (const auto& [key, form] : arguments)
    for (const bool value : {false, true})
      if ((value || has_hole(form)) && std::erase(words, special_argument(form, value)) > 0)
        found[key] = print_json(json(value));
  for (const auto& [key, form] : arguments)
    for (const std::string& word : words)
      if (const std::string before = form.substr(0, form.find('{')); !form.starts_with('-') && word.starts_with(before))
        found[key] = print_json(json(word.substr(before.size())));
}

}  // namespace

struct EditableUserTrainerSettings::Parsed {
  std::optional<json> config, whole;  // the config; config and command
  std::optional<ConfigKeyLineNumbers> lines;
  std::map<std::string, json> command;
};

EditableUserTrainerSettings::~EditableUserTrainerSettings() = default;

EditableUserTrainerSettings::EditableUserTrainerSettings(const TrainerProfile& profile, std::string text,
                                                         std::string name, std::vector<std::string> command,
                                                         const std::map<std::string, std::string>& releases,
                                                         Absent absent)
    : profile_(profile),
      text_(std::move(text)),
      name_(std::move(name)),
      command_line_(join(command, " ")),
      form_(form_of(name_)),
      parsed_(std::make_unique<Parsed>()) {
  if (text_.size() > kMaxConfigBytes)
    throw UsageError(name_ + " is larger than " + format_bytes(kMaxConfigBytes) + ": that is no config of a trainer");
  if (name_.empty() && profile.argument.empty() && absent == Absent::refused)
    throw UsageError("this trainer takes its settings from a config: --config FILE, with {config} in the command");
  if (!name_.empty() && profile.forms.empty())
    throw UsageError(
        "this trainer has no config file that memtune changes: its settings are arguments ({args} in a command), or "
        "lines of a program");
  if (!name_.empty() && std::ranges::count(profile.forms, form_) == 0)
    throw UsageError(name_ + ": a config of this trainer is a file ending in ." + join(profile.forms, " or ."));
  if (text_.find('\0') != std::string::npos) throw UsageError(name_ + " has a zero byte: it is no UTF-8 text");
  take_flags(command, profile.arguments, command_);
  command_.merge(settings_in(command, profile));
  for (const auto& [key, value] : command_) parsed_->command[key] = parse_json(value);
  if (form_ == "json") whole_config();
  choose_names(releases);
}

// A renamed key has the name that the config uses, otherwise the release's name.
void EditableUserTrainerSettings::choose_names(const std::map<std::string, std::string>& releases) {
  for (const ConfigKeyRename& rename : profile_.renames) {
    const bool is_new = !own(rename.to).is_discarded();
    if (is_new || (!rename.older && own(rename.from).is_discarded() && in_range(rename.range, releases)))
      names_[rename.from] = rename.to;
  }
}

Path EditableUserTrainerSettings::path_of(const std::string& key) const {
  Path path = split(key, '.');
  if (const auto renamed = names_.find(path.front()); renamed != names_.end()) path.front() = renamed->second;
  return path;
}

const json& EditableUserTrainerSettings::whole_config() const {
  std::optional<json>& config = parsed_->config;
  if (!config)
    config = form_ == "json"   ? parse_json_object(name_, text_)
             : form_ == "toml" ? read_whole_toml(text_, name_)
                               : read_whole_yaml(text_, name_);
  return *config;
}

const json& EditableUserTrainerSettings::in_config(const std::string& key) const {
  if (name_.empty()) return kUnset;
  return member(whole_config(), path_of(key));
}

const json& EditableUserTrainerSettings::whole() const {
  if (parsed_->whole) return *parsed_->whole;
  json all = name_.empty() ? json::object() : whole_config();
  for (const auto& [key, value] : parsed_->command) all[key] = value;
  return parsed_->whole.emplace(std::move(all));
}

void EditableUserTrainerSettings::visit(const std::function<void(const Path&, const json&)>& see) const {
  Path path;
  const std::function<void(const json&)> walk = [&](const json& value) {
    if (!path.empty() && (!value.is_object() || value.empty())) return see(path, value);
    for (const auto& [key, inner] : value.items()) {
      path.push_back(key);
      walk(inner);
      path.pop_back();
    }
  };
  walk(whole());
}

const json& EditableUserTrainerSettings::own(const std::string& key) const {
  const Path path = path_of(key);
  const std::map<std::string, json>& command = parsed_->command;
  if (const auto whole = command.find(join(path, ".")); whole != command.end()) return whole->second;
  if (const auto outer = command.find(path.front()); outer != command.end())
    return member(outer->second, std::span(path).subspan(1));
  return in_config(key);
}

bool EditableUserTrainerSettings::is_user_set(const std::string& key) const {
  const json& value = own(key);
  return !value.is_discarded() && !value.is_null();
}

bool EditableUserTrainerSettings::is_in_command(const std::string& key) const {
  const Path path = path_of(key);
  return command_.contains(path.front()) || command_.contains(join(path, "."));
}

bool EditableUserTrainerSettings::can_remove(const std::string& key) const {
  return !is_in_command(key) || !profile_.removal.empty() || !fallback(key).is_null();
}

bool EditableUserTrainerSettings::is_read(const std::string& key) const {
  const std::string* const text = own(key).get_ptr<const std::string*>();
  return !text || !text->starts_with('$');
}

size_t EditableUserTrainerSettings::line_of(const Path& path) const {
  std::optional<ConfigKeyLineNumbers>& lines = parsed_->lines;
  if (!lines) lines = form_ == "toml" ? lines_of_toml(text_, name_) : lines_of_yaml(text_, name_);
  return lines->line_of(path);
}

std::vector<EditableUserTrainerSettings::WrongKind> EditableUserTrainerSettings::wrong_kinds() const {
  std::vector<WrongKind> wrong;
  for (const auto& [key, setting] : profile_.settings) {
    const json& value = own(key);
    if (value.is_discarded() || value.is_null() || !is_read(key)) continue;
    if (const std::string wanted = wanted_instead(value, setting); !wanted.empty())
      wrong.push_back(
          {key, join(path_of(key), ".") + " must be " + wanted + ", not " + shorten(print_json(value), 60)});
  }
  return wrong;
}

void EditableUserTrainerSettings::check_kinds() const {
  const std::vector<WrongKind> wrong = wrong_kinds();
  if (!wrong.empty())
    throw UsageError((name_.empty() ? std::string("the command") : name_) + ": " + wrong.front().text);
}

json EditableUserTrainerSettings::fallback(const std::string& key) const {
  const auto setting = profile_.settings.find(key);
  return setting == profile_.settings.end() ? json() : parse_json(setting->second.fallback);
}

json EditableUserTrainerSettings::value(const std::string& key, const Changes& changes) const {
  if (key == "$command") return command_line_.empty() ? json() : json(command_line_);
  if (const auto changed = changes.find(key); changed != changes.end())
    return changed->second ? parse_json(*changed->second) : fallback(key);
  const json& value = own(key);
  if (value.is_discarded()) return fallback(key);
  if (!value.is_null()) return value;
  const auto setting = profile_.settings.find(key);
  json empty = setting == profile_.settings.end() ? json() : parse_json(setting->second.empty);
  return empty.is_null() ? fallback(key) : empty;
}

std::string EditableUserTrainerSettings::with(const Changes& changes) const {
  if (name_.empty()) return "";
  std::string text = text_;
  for (const auto& [key, change] : changes) {
    const Path path = path_of(key);
    const std::optional<json> value = change ? std::optional(parse_json(*change)) : std::nullopt;
    text = form_ == "json"   ? put_in_json(text, path, value, name_)
           : form_ == "toml" ? put_in_toml(text, path, value, name_)
                             : put_in_yaml(text, path, value, name_);
  }
  return text;
}

void EditableUserTrainerSettings::add_argument(const std::string& key, const json& value,
                                               std::vector<std::string>& to) const {
  const auto special = profile_.arguments.find(key);
  if (special != profile_.arguments.end()) {
    if (value == json(false) && !has_hole(special->second)) return;
    for (const std::string& word : split(special_argument(special->second, value), ' ')) to.push_back(word);
    return;
  }
  for (std::string word : split(value.is_discarded() ? profile_.removal : profile_.argument, ' ')) {
    replace(word, "{key}", key);
    replace(word, "{value}", argument_text(value));
    to.push_back(word);
  }
}

// A mapping that is one argument is written whole, including the user's other members.
std::vector<std::string> EditableUserTrainerSettings::arguments(const Changes& changes) const {
  std::map<std::string, json> whole;
  for (const auto& [key, value] : changes) {
    const Path path = path_of(key);
    if (!value && own(key).is_discarded()) continue;
    if (profile_.dotted || path.size() == 1) {
      const bool out = !value && !profile_.removal.empty();
      whole[join(path, ".")] = value ? parse_json(*value) : out ? kUnset : this->value(key, changes);
      continue;
    }
    if (!whole.contains(path.front())) {
      const json outer = own(split(key, '.').front());
      whole[path.front()] = outer.is_object() ? outer : json::object();
    }
    if (value)
      whole[path.front()][path[1]] = parse_json(*value);
    else
      whole[path.front()].erase(path[1]);
  }
  std::vector<std::string> words;
  if (profile_.argument.empty()) return words;
  for (const bool command : {false, true})  // subcommands of the trainer come after all options
    for (const auto& [key, value] : whole) {
      const auto form = profile_.arguments.find(key);
      if (command == (form != profile_.arguments.end() && !form->second.starts_with('-')))
        add_argument(key, value, words);
    }
  return words;
}

}  // namespace memtune::trainer
