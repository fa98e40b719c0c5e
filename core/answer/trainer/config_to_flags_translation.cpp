#include "core/answer/trainer/config_to_flags_translation.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/answer/trainer/strategy_config_translator.h"
#include "core/answer/trainer/trainer_config_to_sweep_flag_rules.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

constexpr int kMaxNames = 16;  // limit of "${key}" references in a value, nested ones included

class Filler {
 public:
  Filler(const EditableUserTrainerSettings& own, const TrainerConfigToSweepFlagRules& profile)
      : own_(own), profile_(profile) {}

  // Replaces "{key}" and "{key|default}" with values; "[...]" is omitted if a key in it has none. None if any other key
  // has no value. Appends the keys that have a value to `keys`, and those that have none to `missing`.
  std::optional<std::string> fill(std::string_view form, std::vector<std::string>& keys,
                                  std::vector<std::string>& missing) const {
    std::string text;
    for (size_t i = 0; i < form.size(); ++i) {
      const size_t end = form[i] == '{' ? form.find('}', i) : form[i] == '[' ? form.find(']', i) : form.npos;
      if (end == form.npos) {
        text += form[i];
        continue;
      }
      const std::string_view inside = form.substr(i + 1, end - i - 1);
      std::vector<std::string> unused;
      const auto value = form[i] == '[' ? fill(inside, keys, unused) : value_of(inside, keys);
      if (!value && form[i] == '{') missing.emplace_back(inside);
      text += value.value_or("");
      i = end;
    }
    return missing.empty() ? std::optional(text) : std::nullopt;
  }

  bool meets(const ConfigToSweepFlagRule& row) const {
    return std::ranges::all_of(row.when,
                               [&](const auto& one) { return matches(own_.value(one.first), parse_json(one.second)); });
  }

 private:
  std::optional<std::string> value_of(std::string_view name, std::vector<std::string>& keys) const {
    const size_t bar = name.find('|');
    const std::string key(name.substr(0, bar));
    const json value = own_.value(key);
    if (value.is_null()) return bar == name.npos ? std::nullopt : std::optional(std::string(name.substr(bar + 1)));
    if (own_.is_user_set(key)) keys.push_back(join(own_.path_of(key), "."));
    if (!value.is_string() || std::ranges::count(profile_.lists, key) == 0) return text_of(value);
    json parts = json::array();
    for (const std::string& part : split(value.get<std::string>(), ',')) parts.push_back(trim(part));
    return text_of(parts);
  }

  std::string text_of(const json& value) const {
    if (value.is_string()) return plain(value.get<std::string>());
    if (!value.is_array()) return print_json(value);
    std::vector<std::string> parts;
    for (const json& part : value) {
      const std::string text = text_of(part);
      const auto module = profile_.modules.find(text);
      parts.push_back(module == profile_.modules.end() ? text : module->second);
    }
    return join(parts, "+");
  }

  // Removes a leading anchor ("&base org/name") and replaces each "${key}" with its value.
  std::string plain(std::string text) const {
    if (text.starts_with('&')) text = trim(text.substr(std::min(text.find(' '), text.size())));
    for (int i = 0; i < kMaxNames; ++i) {  // more would be a reference to itself
      const size_t at = text.find("${"), end = text.find('}', std::min(at, text.size()));
      if (end == text.npos) break;
      const json value = own_.value(text.substr(at + 2, end - at - 2));
      if (!value.is_string()) break;
      text.replace(at, end + 1 - at, value.get<std::string>());
    }
    return text;
  }

  const EditableUserTrainerSettings& own_;
  const TrainerConfigToSweepFlagRules& profile_;
};

// A setting of the config or the command, whose value is no mapping.
struct Leaf {
  std::string path;  // dotted, with the names that the profile uses
  const json* value;
};

std::vector<Leaf> leaves_of(const EditableUserTrainerSettings& own, const TrainerProfile& trainer) {
  std::vector<Leaf> leaves;
  own.visit([&](Path path, const json& value) {
    const auto renamed = std::ranges::find_if(trainer.renames, [&](const ConfigKeyRename& rename) {
      return rename.to == path.front() && own.path_of(rename.from).front() == path.front();
    });
    if (renamed != trainer.renames.end()) path.front() = renamed->from;
    leaves.push_back({join(path, "."), &value});
  });
  return leaves;
}

bool any_covers(const std::vector<std::string>& patterns, const std::string& path) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return covers(pattern, path); });
}

bool is_off(const json& value) {
  return value.is_null() || value == json(false) || value == json("") || (value.is_structured() && value.empty());
}

bool has_harmless_value(const TrainerConfigToSweepFlagRules& profile, const std::string& key, const json& value) {
  const auto found = profile.harmless.find(key);
  if (found == profile.harmless.end()) return false;
  const auto harmless = [&](const json& one) { return std::ranges::count(found->second, print_json(one)) > 0; };
  return harmless(value) || (value.is_array() && std::ranges::all_of(value, harmless));
}

// The keys that rows use whatever their value is: those in braces on which the row has no condition. A refusal only
// shows them.
std::set<std::string> keys_in_braces(const TrainerConfigToSweepFlagRules& profile) {
  std::set<std::string> keys;
  for (const ConfigToSweepFlagRule& row : profile.rows)
    for (const std::string& form : {row.value, row.note})
      for (size_t at = form.find('{'); at != form.npos; at = form.find('{', at + 1))
        if (const std::string key = form.substr(at + 1, form.find_first_of("}|", at) - at - 1); !row.when.contains(key))
          keys.insert(key);
  return keys;
}

std::set<std::string> keys_of_strategies(const TrainerProfile& trainer) {
  std::set<std::string> keys;
  for (const StrategyToConfigKeysMapping& strategy : trainer.strategies)
    for (const auto* part : {&strategy.set, &strategy.also, &strategy.when})
      for (const auto& [key, value] : *part) keys.insert(key);
  return keys;
}

// Finds the settings that neither a flag nor a note nor a strategy depends on.
class Unmeasured {
 public:
  Unmeasured(const TrainerConfigToSweepFlagRules& profile, const TrainerProfile& trainer,
             const EditableUserTrainerSettings& own)
      : profile_(profile), own_(own), used_(keys_in_braces(profile)) {
    used_.merge(keys_of_strategies(trainer));
  }

  bool contains(const Leaf& leaf) const {
    if (is_off(*leaf.value) && *leaf.value != json(false)) return false;
    if (any_covers(profile_.no_effect, leaf.path)) return false;
    for (size_t end = leaf.path.find('.'); end != leaf.path.npos; end = leaf.path.find('.', end + 1))
      if (is_used(leaf.path.substr(0, end))) return false;
    return !is_used(leaf.path);
  }

 private:
  bool is_used(const std::string& key) const {
    const json value = own_.value(key);
    return used_.contains(key) || has_harmless_value(profile_, key, value) ||
           std::ranges::any_of(profile_.rows, [&](const auto& row) {
             const auto condition = row.when.find(key);
             return condition != row.when.end() && (is_off(value) || matches(value, parse_json(condition->second)));
           });
  }

  const TrainerConfigToSweepFlagRules& profile_;
  const EditableUserTrainerSettings& own_;
  std::set<std::string> used_;
};

constexpr size_t kMaxShown = 40;  // characters of a value in a message
constexpr size_t kMaxListed = 3;  // keys of one refusal

std::string listed(std::vector<std::string> keys) {
  const size_t more = keys.size() - std::min(keys.size(), kMaxListed);
  keys.resize(keys.size() - more);
  return join(keys, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

std::string shown(const Leaf& leaf) { return leaf.path + ": " + shorten(print_json(*leaf.value), kMaxShown); }

}  // namespace

ConfigToFlagsTranslation native_flags(const std::string& trainer, const std::string& text, const std::string& name,
                                      const std::vector<std::string>& command, UnsupportedImageInputPolicy images) {
  const TrainerProfile profile = read_space_profile(trainer);  // throws for an unknown trainer, with the nearest name
  const TrainerConfigToSweepFlagRules training = read_training_profile(trainer);
  const EditableUserTrainerSettings own(profile, text, name, command, profile.releases);
  own.check_kinds();
  const Filler filler(own, training);
  const std::vector<Leaf> leaves = leaves_of(own, profile);
  ConfigToFlagsTranslation found;
  found.command = training.command;
  std::set<std::string> seen, mentioned;
  for (const ConfigToSweepFlagRule& row : training.rows) {
    if ((!row.flag.empty() && seen.contains(row.flag)) || !filler.meets(row)) continue;
    std::vector<std::string> set;  // keys of `any`
    for (const Leaf& leaf : leaves)
      if (any_covers(row.any, leaf.path)) {
        mentioned.insert(leaf.path);
        if (!is_off(*leaf.value) && !has_harmless_value(training, leaf.path, *leaf.value)) set.push_back(leaf.path);
      }
    if (set.empty() && !row.any.empty()) continue;
    std::vector<std::string> keys, missing;
    const auto filled = filler.fill(!row.flag.empty() ? row.value : row.note + row.refusal, keys, missing);
    if (!filled && !row.flag.empty() && !row.when.empty()) found.missing.emplace(row.flag, missing);
    if (!filled) continue;
    if (row.flag.empty()) {
      const bool refused = !row.refusal.empty() && (!row.images || images == UnsupportedImageInputPolicy::refused);
      (refused ? found.refusals : found.notes).push_back(set.empty() ? *filled : listed(set) + ": " + *filled);
      continue;
    }
    seen.insert(row.flag);
    for (const auto& [key, wanted] : row.when)
      if (const std::string name = join(own.path_of(key), ".");
          own.is_user_set(key) && std::ranges::count(keys, name) == 0)
        keys.push_back(name);
    found.flags.push_back({row.flag, *filled, keys});
  }
  for (const std::string& flag : seen) found.missing.erase(flag);
  const Unmeasured unmeasured(training, profile, own);
  for (const Leaf& leaf : leaves)
    if (!mentioned.contains(leaf.path) && unmeasured.contains(leaf)) found.unmeasured.push_back(shown(leaf));
  const StrategyConfigTranslator translator(profile, own, profile.releases);
  if (const auto meaning = translator.meaning())
    found.strategy = meaning->strategy;
  else
    found.why_none = translator.why_none();
  return found;
}

}  // namespace memtune::trainer
