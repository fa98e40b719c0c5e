#include "core/answer/trainer/trainer_config_variants.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/answer/trainer/rules.h"
#include "core/answer/trainer/strategy_config_translator.h"
#include "core/answer/trainer/trainer_profile.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

// Other micro-batches with the same samples per step: micro-batch × times / over. Skipped if the counts are not whole.
struct BatchStep {
  const char* name;
  int64_t times, over;
};
constexpr int64_t kMaxRows = int64_t{1} << 40;
constexpr BatchStep kBatchSteps[] = {{"batch-x2", 2, 1}, {"batch-x4", 4, 1}, {"batch-half", 1, 2}};

class SpaceMaker {
 public:
  SpaceMaker(const TrainerProfile& profile, const EditableUserTrainerSettings& own,
             const TrainerConfigVariantGenerationOptions& settings, const std::map<std::string, std::string>& releases)
      : profile_(profile), own_(own), settings_(settings), releases_(releases), dialect_(profile, own, releases) {}

  TrainerConfigVariants make() {
    known_[identity({})] = "own";
    space_.variants.push_back({"own", own_.with({}), {}, {}, like({})});
    for (const SettingAxis& axis : profile_.axes)
      for (const SettingAxisOption& choice : axis.choices) add_choice(axis, choice);
    if (!profile_.micro_batch.empty())
      for (const BatchStep& step : kBatchSteps) add_batch(step);
    for (const std::string& combination : profile_.combinations) add_combination(combination);
    return std::move(space_);
  }

 private:
  void skip(const std::string& name, const std::string& reason) { space_.skipped.push_back({name, reason}); }

  // All settings that a variant may change, as text. Equal texts mean equal configs.
  std::string identity(const Changes& changes) const {
    json all;
    for (const auto& [key, setting] : profile_.settings)
      if (setting.kinds != std::vector<std::string>{"mapping"}) all[key] = own_.value(key, changes);
    return print_json(all);
  }

  // Why the variant must not run; none if it may.
  std::optional<std::string> reason_against(const std::string& name, const Changes& changes) const {
    for (const auto& [key, value] : changes)
      if (own_.has_config() && own_.is_in_command(key) && own_.value(key) != own_.value(key, changes))
        return key + " is set in the command, which takes precedence";
    for (const auto& [key, value] : changes) {
      if (!value && !own_.can_remove(key)) return key + " is set in the command, and no argument takes it back";
      const std::optional<PackageReleaseRange>& range = profile_.settings.at(key).range;
      if (value && !in_range(range, releases_)) return out_of(*range);
    }
    for (const ConfigRejectionRule& rule : profile_.rules)
      if (!rule.note && in_range(rule.range, releases_) && conditions_hold(rule.when, own_, changes, name))
        return rule.reason;
    return {};
  }

  void add(const std::string& name, const Changes& changes) {
    if (const auto reason = reason_against(name, changes)) return skip(name, *reason);
    const auto [same, is_new] = known_.emplace(identity(changes), name);
    if (!is_new) return skip(name, "the same as " + same->second);
    space_.variants.push_back({name, own_.with(changes), own_.arguments(changes), parts(name),
                               dialect_.is_about(changes) ? like(changes) : ""});
  }

  // The names of the variants that run the parts of a combination. Omits parts that the user's config has already.
  std::vector<std::string> parts(const std::string& name) const {
    std::vector<std::string> parts;
    const std::vector<std::string> all = split(name, '+');
    if (all.size() < 2) return parts;
    for (const std::string& part : all) {
      const auto known = known_.find(identity(choices_.at(part)));
      const std::string& run_by = known == known_.end() ? part : known->second;
      if (run_by != "own") parts.push_back(run_by);
    }
    return parts;
  }

  // memtune's strategy for the changed settings; "": none.
  std::string like(const Changes& changes) const {
    const std::optional<ConfigEquivalentStrategy> meaning = dialect_.meaning(changes);
    return meaning ? meaning->strategy : "";
  }

  void add_choice(const SettingAxis& axis, const SettingAxisOption& choice) {
    if (axis.allow == "optimizer" && !settings_.optimizer && !known_.contains(identity(choice.changes)))
      return skip(choice.name, "it changes training: --allow optimizer tries it");
    if (!in_range(choice.range, releases_)) return skip(choice.name, out_of(*choice.range));
    choices_[choice.name] = choice.changes;
    add(choice.name, choice.changes);
  }

  std::string out_of(const PackageReleaseRange& range) const {
    return "only in " + range.package + (range.since.empty() ? "" : " from " + range.since + " on") +
           (range.before.empty() ? "" : " before " + range.before) + ", here is " + releases_.at(range.package);
  }

  void add_batch(const BatchStep& step) {
    const json micro = own_.value(profile_.micro_batch), accumulation = own_.value(profile_.accumulation);
    const auto is_count = [](const json& value) {
      return value.is_number_integer() && value >= 1 && value <= kMaxRows;
    };
    if (!is_count(micro) || !is_count(accumulation))
      return skip(step.name, profile_.micro_batch + " and " + profile_.accumulation + " are not both numbers here");
    const int64_t rows = micro.get<int64_t>() * step.times, times = accumulation.get<int64_t>() * step.over;
    if (rows % step.over != 0 || times % step.times != 0 || rows <= 0 || times <= 0)
      return skip(step.name, print_json(micro) + " x " + print_json(accumulation) +
                                 " samples per step cannot be split into such batches");
    choices_[step.name] = {{profile_.micro_batch, std::to_string(rows / step.over)},
                           {profile_.accumulation, std::to_string(times / step.times)}};
    add(step.name, choices_[step.name]);
  }

  // Combines choices. If one of them was skipped, the combination is omitted without a message.
  void add_combination(const std::string& name) {
    Changes changes;
    for (const std::string& part : split(name, '+')) {
      const auto choice = choices_.find(part);
      if (choice == choices_.end()) return;
      for (const auto& [key, value] : choice->second) changes[key] = value;
    }
    add(name, changes);
  }

  const TrainerProfile& profile_;
  const EditableUserTrainerSettings& own_;
  const TrainerConfigVariantGenerationOptions& settings_;
  const std::map<std::string, std::string>& releases_;
  const StrategyConfigTranslator dialect_;
  std::map<std::string, Changes> choices_;    // by name
  std::map<std::string, std::string> known_;  // variant names by identity
  TrainerConfigVariants space_;
};

}  // namespace

void require_variants(const std::string& trainer) {
  if (!read_space_profile(trainer).calls.empty())
    throw UsageError("the settings of " + trainer +
                     " are in your script, so give it an argument for them: memtune sweep --try "
                     "'gc=unsloth;True;False' -- python train.py {gc}");
}

TrainerConfigVariants make_space(const std::string& trainer, const std::string& own_text, const std::string& own_name,
                                 const TrainerConfigVariantGenerationOptions& settings) {
  require_variants(trainer);
  TrainerProfile profile = read_space_profile(trainer);
  if (own_name.empty()) choose_arguments(profile, settings.command);
  std::map<std::string, std::string> releases = profile.releases;
  for (const auto& [package, release] : settings.releases) releases[package] = release;
  const EditableUserTrainerSettings own(profile, own_text, own_name, settings.command, releases);
  own.check_kinds();
  TrainerConfigVariants space = SpaceMaker(profile, own, settings, releases).make();
  space.file_name = std::filesystem::path(own_name).filename().string();
  return space;
}

}  // namespace memtune::trainer
