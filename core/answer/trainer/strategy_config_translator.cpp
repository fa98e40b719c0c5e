#include "core/answer/trainer/strategy_config_translator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/answer/trainer/rules.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;
using plan::Strategy;
using plan::StrategyKind;

std::optional<int64_t> number_of(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) return {};
  return std::stoll(text);
}

std::optional<int64_t> count_of(const json& value) {
  const bool count = value.is_number_integer() && value >= 1 && value <= kMaxCount;
  return count ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// Parts of the names of keys that decide what is stored between forward and backward.
constexpr std::string_view kMemoryWords[] = {"activation_checkpoint", "activation_offload", "activation_cpu_offload",
                                             "gradient_checkpoint",   "recompute",          "tiled_mlp"};

// Splits a pattern at its placeholder: "{n}", "{n-1}" or "{names}".
struct Hole {
  explicit Hole(const std::string& pattern) {
    const size_t open = pattern.find('{');
    before = pattern.substr(0, open);
    if (open == std::string::npos) return;
    const size_t close = pattern.find('}', open);
    name = pattern.substr(open + 1, close - open - 1);
    behind = pattern.substr(close + 1);
  }
  std::string before, name, behind;
};

// The value of a placeholder, from a strategy or from a config.
struct Filling {
  std::optional<int64_t> n;
  std::vector<std::string> names;  // in memtune's words
};

using Names = std::map<std::string, std::vector<std::string>>;

// Matches a strategy's text against a pattern; none if it does not match.
std::optional<Filling> filling_of(const std::string& text, const StrategyToConfigKeysMapping& expression,
                                  const Names& names) {
  const Hole hole(expression.strategy);
  if (hole.name.empty()) return text == expression.strategy ? std::optional(Filling()) : std::nullopt;
  if (text.size() <= hole.before.size() + hole.behind.size() || !text.starts_with(hole.before) ||
      !text.ends_with(hole.behind))
    return {};
  const std::string inside = text.substr(hole.before.size(), text.size() - hole.before.size() - hole.behind.size());
  if (hole.name == "names") {
    Filling filling{{}, split(inside, '+')};
    const bool known = std::ranges::all_of(filling.names, [&](const auto& name) { return names.contains(name); });
    return known ? std::optional(filling) : std::nullopt;
  }
  const std::optional<int64_t> number = number_of(inside);
  if (!number) return {};
  return Filling{*number + (hole.name == "n-1" ? 1 : 0), {}};
}

std::string strategy_text(const StrategyToConfigKeysMapping& expression, const Filling& filling) {
  const Hole hole(expression.strategy);
  if (hole.name.empty()) return expression.strategy;
  const std::string inside =
      hole.name == "names" ? join(filling.names, "+") : std::to_string(*filling.n - (hole.name == "n-1" ? 1 : 0));
  return hole.before + inside + hole.behind;
}

// A value of `set` with its placeholder replaced.
json filled(const json& value, const Filling& filling, const Names& names) {
  if (value == json("{n}")) return *filling.n;
  if (value == json("{text n}")) return std::to_string(*filling.n);
  if (value == json("{names}")) {
    json list = json::array();
    for (const std::string& name : filling.names)
      for (const std::string& word : names.at(name)) list.push_back(word);
    return list;
  }
  if (!value.is_object()) return value;
  json whole = json::object();
  for (const auto& [key, member] : value.items()) whole[key] = filled(member, filling, names);
  return whole;
}

// Finds the names whose words make up the list. Fails if a word belongs to no name.
bool read_names(const json& list, const Names& names, Filling& filling) {
  if (!list.is_array() || list.empty()) return false;
  size_t words = 0;
  for (const auto& [name, all] : names) {
    if (!std::ranges::all_of(all, [&](const auto& word) { return std::ranges::count(list, json(word)) == 1; }))
      continue;
    filling.names.push_back(name);
    words += all.size();
  }
  return words == list.size();
}

bool has_hole(const json& value) {
  const std::string text = print_json(value);
  return text.find("{n}") != std::string::npos || text.find("{text n}") != std::string::npos ||
         text.find("{names}") != std::string::npos;
}

bool read_hole(const json& value, const json& pattern, const Names& names, Filling& filling) {
  if (pattern == json("{n}")) {
    filling.n = count_of(value);
    return filling.n.has_value();
  }
  if (pattern == json("{text n}")) {
    filling.n = value.is_string() ? number_of(value.get<std::string>()) : count_of(value);
    return filling.n && *filling.n > 0;
  }
  if (pattern == json("{names}")) return read_names(value, names, filling);
  if (!pattern.is_object() || !value.is_object() || value.size() != pattern.size()) return value == pattern;
  return std::ranges::all_of(pattern.items(), [&](const auto& member) {
    return value.contains(member.key()) && read_hole(value[member.key()], member.value(), names, filling);
  });
}

// Replaces every=1 with the equivalent full checkpoint.
Strategy plain(Strategy strategy) {
  if (strategy.parts().front().kind() == StrategyKind::checkpoint_every && strategy.parts().front().every() == 1)
    return strategy.with(StrategyKind::checkpoint_every, StrategyKind::checkpoint_full);
  return strategy;
}

std::string of_blocks(int64_t n, int blocks) {
  return "of " + std::to_string(blocks) + " blocks it takes " + std::to_string(blocks / n) + " where memtune takes " +
         std::to_string(blocks / n + 1) + ": its peak is higher";
}

std::string deciding_keys(const StrategyToConfigKeysMapping& expression, const EditableUserTrainerSettings& own) {
  std::vector<std::string> keys;
  for (const auto& [key, pattern] : expression.set)
    if (own.is_user_set(key) || pattern != "null")
      keys.push_back(join(own.path_of(key), ".") + ": " + print_json(own.value(key)) +
                     (own.is_user_set(key) ? "" : " by default"));
  return join(keys, ", ");
}

std::string with_values(const std::string& text, const EditableUserTrainerSettings& own) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at), close = text.find('}', std::min(open, text.size()));
    filled += text.substr(at, open - at);
    if (close == text.npos) break;
    const json value = own.value(text.substr(open + 1, close - open - 1));
    filled += value.is_null() ? "not set" : value.is_string() ? value.get<std::string>() : print_json(value);
    at = close + 1;
  }
  return filled;
}

}  // namespace

// Whether the rule may apply. Unknown facts (keys without a config, the command) count as met.
bool StrategyConfigTranslator::may_hold(const ConfigRejectionRule& rule, const Changes& changes) const {
  if (!in_range(rule.range, releases_)) return false;
  bool about = rule.note && own_.has_config();
  for (const auto& [key, wanted] : rule.when) {
    if (key == "$name") return false;
    const bool changed = changes.contains(key);
    about = about || changed;
    if (!changed && (key == "$command" || !own_.has_config())) {
      if (profile_.settings.contains(key)) return false;
      continue;
    }
    if (!matches(own_.value(key, changes), parse_json(wanted))) return false;
  }
  return about;
}

bool StrategyConfigTranslator::takes(StrategyConfigChangesAndNotes& keys, std::string& why) const {
  for (const ConfigRejectionRule& rule : profile_.rules) {
    if (!may_hold(rule, keys.changes)) continue;
    const bool known = own_.has_config() && !rule.when.contains("$command");
    if (known && !rule.note) {
      why = rule.reason;
      return false;
    }
    if (std::ranges::count(keys.notes, rule.reason) == 0) keys.notes.push_back(rule.reason);
  }
  return true;
}

std::optional<StrategyConfigChangesAndNotes> StrategyConfigTranslator::keys_of(const Strategy& strategy,
                                                                               std::string& why) const {
  const std::string text = to_string(plain(strategy));
  for (const StrategyToConfigKeysMapping& expression : profile_.strategies) {
    if (expression.read || !conditions_hold(expression.when, own_)) continue;
    const std::optional<Filling> filling = filling_of(text, expression, profile_.names);
    if (!filling) continue;
    if (!in_range(expression.range, releases_)) {
      why = "only " + expression.range->package + " from " + expression.range->since + " on has keys for it";
      continue;
    }
    if (expression.divides && blocks_ % *filling->n != 0) {
      why = of_blocks(*filling->n, blocks_);
      continue;
    }
    StrategyConfigChangesAndNotes keys{{}, expression.notes};
    for (const auto& [key, value] : expression.set) {
      const json wanted = filled(parse_json(value), *filling, profile_.names);
      keys.changes[key] = wanted.is_null() ? std::nullopt : std::optional(print_json(wanted));
    }
    for (const auto& [key, value] : expression.also)
      keys.changes[key] = value == "null" ? std::nullopt : std::optional(value);
    if (takes(keys, why)) return keys;
  }
  return {};
}

// "tiled_mlp: true": keys about activations that this profile says nothing of. "": none.
std::string StrategyConfigTranslator::unknown_keys() const {
  std::vector<std::string> unknown;
  own_.visit([&](const Path& path, const json& value) {
    const bool about_activations = std::ranges::any_of(
        kMemoryWords, [&](std::string_view word) { return path.back().find(word) != std::string::npos; });
    const bool off = value.is_null() || value == json(false) || value == json("none");
    if (about_activations && !off && !is_known(path)) unknown.push_back(join(path, ".") + ": " + print_json(value));
  });
  return join(unknown, ", ");
}

bool StrategyConfigTranslator::is_known(const Path& path) const {
  const auto about = [&](const std::string& key) {
    const Path known = own_.path_of(key);
    return known.size() <= path.size() && std::equal(known.begin(), known.end(), path.begin());
  };
  const auto in_keys = [&](const auto& map) {
    return std::ranges::any_of(map, [&](const auto& entry) { return about(entry.first); });
  };
  const std::vector<std::string> mapping = {"mapping"};  // its members are not known by it
  return std::ranges::any_of(
             profile_.settings,
             [&](const auto& setting) { return setting.second.kinds != mapping && about(setting.first); }) ||
         std::ranges::any_of(profile_.strategies,
                             [&](const auto& one) { return in_keys(one.set) || in_keys(one.when); }) ||
         std::ranges::any_of(
             profile_.closed,
             [&](const auto& one) { return about(one.first) && std::ranges::count(one.second, path.back()) > 0; }) ||
         std::ranges::any_of(profile_.rules, [&](const auto& rule) { return in_keys(rule.when); });
}

std::optional<ConfigEquivalentStrategy> StrategyConfigTranslator::meaning(const Changes& changes) const {
  if (!unknown_keys().empty()) return {};
  for (const StrategyToConfigKeysMapping& expression : profile_.strategies) {
    if (!in_range(expression.range, releases_)) continue;
    if (!conditions_hold(expression.when, own_, changes)) continue;
    const auto said = [&](const auto& entry) { return changes.contains(entry.first) || own_.is_user_set(entry.first); };
    if (expression.stated && std::ranges::none_of(expression.set, said)) continue;
    Filling filling;
    const bool all = std::ranges::all_of(expression.set, [&](const auto& entry) {
      const json value = own_.value(entry.first, changes), pattern = parse_json(entry.second);
      if (pattern.is_null()) return value == own_.fallback(entry.first);
      return has_hole(pattern) ? read_hole(value, pattern, profile_.names, filling) : matches(value, pattern);
    });
    if (!all) continue;
    ConfigEquivalentStrategy meaning{plan::canonical_name(strategy_text(expression, filling)), expression.nearly,
                                     expression.notes, deciding_keys(expression, own_)};
    if (const auto strategy = Strategy::of_name(meaning.strategy)) meaning.strategy = to_string(plain(*strategy));
    if (expression.divides && filling.n && blocks_ % *filling.n != 0) {
      meaning.nearly = true;
      meaning.notes.push_back(of_blocks(*filling.n, blocks_));
    }
    return meaning;
  }
  return {};
}

std::string StrategyConfigTranslator::why_none() const {
  if (const std::string unknown = unknown_keys(); !unknown.empty())
    return unknown + " is about memory, and is not known here";
  for (const ConfigRejectionRule& rule : profile_.undecided)
    if (in_range(rule.range, releases_) && conditions_hold(rule.when, own_)) return with_values(rule.reason, own_);
  std::set<std::string> keys, set;
  for (const StrategyToConfigKeysMapping& expression : profile_.strategies)
    for (const auto& [key, value] : expression.set) {
      keys.insert(join(own_.path_of(key), "."));
      if (own_.is_user_set(key)) set.insert(join(own_.path_of(key), ".") + ": " + print_json(own_.value(key)));
    }
  const auto listed = [](const std::set<std::string>& names) {
    return join(std::vector<std::string>(names.begin(), names.end()), ", ");
  };
  if (!set.empty()) return listed(set) + " is none of them";
  return "none of " + listed(keys) + " is set, so the script itself decides";
}

bool StrategyConfigTranslator::is_about(const Changes& changes) const {
  return std::ranges::any_of(changes, [&](const auto& change) {
    return std::ranges::any_of(profile_.strategies, [&](const StrategyToConfigKeysMapping& expression) {
      return expression.set.contains(change.first);
    });
  });
}

}  // namespace memtune::trainer
