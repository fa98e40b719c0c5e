#include "core/answer/trainer/trainer_config_to_sweep_flag_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

ConfigToSweepFlagRule read_row(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  ConfigToSweepFlagRule row;
  object.read("flag", row.flag);
  object.read("value", row.value);
  object.read("note", row.note);
  object.read("refuse", row.refusal);
  object.read("images", row.images);
  object.read("any", row.any);
  row.when = read_conditions(object, "when");
  object.finish();
  if (int(!row.flag.empty()) + int(!row.note.empty()) + int(!row.refusal.empty()) != 1)
    throw UsageError(path + " is none of a flag, a note and a refusal, or several");
  return row;
}

void read_no_effect(JsonObjectReader& object, TrainerConfigToSweepFlagRules& profile) {
  std::vector<std::string> patterns;
  object.read("no_effect", patterns);
  profile.no_effect.insert(profile.no_effect.end(), patterns.begin(), patterns.end());
  if (const json* harmless = object.find("harmless"))
    for (const auto& [key, values] : harmless->items())
      for (const json& value : values) profile.harmless[key].push_back(print_json(value));
}

}  // namespace

TrainerConfigToSweepFlagRules read_training_profile(const std::string& trainer) {
  const auto all = profiles();
  const bool known = std::ranges::any_of(
      all, [&](const EmbeddedJsonPreset& profile) { return profile.kind == "training" && profile.name == trainer; });
  if (!known)
    throw UsageError("a config of " + trainer +
                     " does not say which model it trains: give --model and its flags without --trainer, or put the "
                     "training command behind --");
  const json text = parse_json_object(trainer, find_profile("training", trainer).json);
  JsonObjectReader object(text, trainer);
  TrainerConfigToSweepFlagRules profile;
  std::string description, like;
  object.read("description", description);
  object.read("command", profile.command);
  object.read("like", like);
  object.read("lists", profile.lists);
  if (const json* modules = object.find("modules")) modules->get_to(profile.modules);
  for (const json& row : object.array("rows"))
    profile.rows.push_back(read_row(row, object.path("rows", profile.rows.size())));
  read_no_effect(object, profile);
  object.finish();
  if (like.empty()) return profile;
  const json other = parse_json_object(like, find_profile("training", like).json);
  JsonObjectReader shared(other, like);
  read_no_effect(shared, profile);
  return profile;
}

bool covers(const std::string& pattern, const std::string& path) {
  for (size_t end = path.find('.'); end != path.npos; end = path.find('.', end + 1))
    if (glob_match(pattern, std::string_view(path).substr(0, end))) return true;
  return glob_match(pattern, path);
}

}  // namespace memtune::trainer
