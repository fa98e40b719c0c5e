#include "core/answer/trainer/memtune_flags.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/answer/trainer/strategy_translator.h"
#include "core/answer/trainer/user_settings.h"
#include "core/base/builtin_profile.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

constexpr int kMaxNames = 16;  // limit of "${key}" references in a value, nested ones included

// A row of profiles/training/<trainer>.json: a flag with its value, or a note, for configs that meet all of `when`.
struct FlagRow {
  std::string flag, value, note;
  std::map<std::string, JsonText> when;
};

FlagRow read_row(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  FlagRow row;
  object.read("flag", row.flag);
  object.read("value", row.value);
  object.read("note", row.note);
  if (const auto* when = object.find("when"))
    for (const auto& [key, wanted] : when->items()) row.when[key] = print_json(wanted);
  object.finish();
  if (row.flag.empty() == row.note.empty()) throw UsageError(path + " is neither a flag nor a note");
  return row;
}

std::vector<FlagRow> read_rows(const std::string& trainer) {
  std::vector<FlagRow> rows;
  const auto all = profiles();
  const bool known = std::ranges::any_of(
      all, [&](const BuiltinProfile& profile) { return profile.kind == "training" && profile.name == trainer; });
  read_space_profile(trainer);  // throws for an unknown trainer, with the nearest name
  if (!known)
    throw UsageError(
        "a config of " + trainer +
        " does not say which model it trains: give --model and its flags, or put the training command behind --");
  const json text = parse_json_object(trainer, find_profile("training", trainer).json);
  JsonObjectReader object(text, trainer);
  std::string description;
  object.read("description", description);
  for (const json& row : object.array("rows")) rows.push_back(read_row(row, object.path("rows", rows.size())));
  object.finish();
  return rows;
}

class Filler {
 public:
  explicit Filler(const UserSettings& own) : own_(own) {}

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

  bool meets(const FlagRow& row) const {
    return std::ranges::all_of(row.when,
                               [&](const auto& one) { return matches(own_.value(one.first), parse_json(one.second)); });
  }

 private:
  std::optional<std::string> value_of(std::string_view name, std::vector<std::string>& keys) const {
    const size_t bar = name.find('|');
    const std::string key(name.substr(0, bar));
    const json value = own_.value(key);
    if (value.is_null()) return bar == name.npos ? std::nullopt : std::optional(std::string(name.substr(bar + 1)));
    if (own_.is_user_set(key)) keys.push_back(key);
    return text_of(value);
  }

  std::string text_of(const json& value) const {
    if (value.is_string()) return plain(value.get<std::string>());
    if (!value.is_array()) return print_json(value);
    std::vector<std::string> parts;
    for (const json& part : value) parts.push_back(text_of(part));
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

  const UserSettings& own_;
};

}  // namespace

MemtuneFlags native_flags(const std::string& trainer, const std::string& text, const std::string& name,
                          const std::vector<std::string>& command) {
  const std::vector<FlagRow> rows = read_rows(trainer);
  const TrainerProfile profile = read_space_profile(trainer);
  const UserSettings own(profile, text, name, command, profile.releases);
  own.check_kinds();
  own.refuse_merges();
  const Filler filler(own);
  MemtuneFlags found;
  std::set<std::string> seen;
  for (const FlagRow& row : rows) {
    if (seen.contains(row.flag) || !filler.meets(row)) continue;
    std::vector<std::string> keys, missing;
    const auto filled = filler.fill(row.flag.empty() ? row.note : row.value, keys, missing);
    if (!filled && !row.flag.empty() && !row.when.empty()) found.missing.emplace(row.flag, missing);
    if (!filled) continue;
    if (row.flag.empty()) {
      found.notes.push_back(*filled);
      continue;
    }
    seen.insert(row.flag);
    for (const auto& [key, wanted] : row.when)
      if (own.is_user_set(key) && std::ranges::count(keys, key) == 0) keys.push_back(key);
    found.flags.push_back({row.flag, *filled, keys});
  }
  for (const std::string& flag : seen) found.missing.erase(flag);
  if (const auto meaning = StrategyTranslator(profile, own, profile.releases).meaning())
    found.strategy = meaning->strategy;
  return found;
}

}  // namespace memtune::trainer
