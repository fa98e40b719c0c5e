#include "core/answer/trainer/remedy_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/answer/trainer/trainers.h"
#include "core/base/bounds.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;
using result::SettingInTrainerSyntax;

// Flags of scripts without a trainer.
constexpr std::array<std::string_view, 8> kBatchFlags = {"batch-size",
                                                         "micro-batch-size",
                                                         "train-batch-size",
                                                         "per-device-train-batch-size",
                                                         "batchsize",
                                                         "micro-batch",
                                                         "batch",
                                                         "bs"};

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 ? std::optional(number) : std::nullopt;
}

// "--batch-size 8" or "--batch_size=8" as the user would write half of it; "": it is 1.
std::optional<std::string> halved_flag(const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    if (!name.starts_with("-")) continue;
    name.erase(0, name.find_first_not_of('-'));
    std::ranges::replace(name, '_', '-');
    if (std::ranges::find(kBatchFlags, name) == kBatchFlags.end()) continue;
    const bool behind = equals == std::string::npos;
    if (behind && i + 1 == command.size()) continue;
    const std::optional<int64_t> number = number_in(behind ? command[i + 1] : word.substr(equals + 1));
    if (!number) continue;
    if (*number == 1) return "";
    return behind ? word + " " + std::to_string(*number / 2) : word.substr(0, equals + 1) + std::to_string(*number / 2);
  }
  return {};
}

std::string value_text(const json& value) { return value.is_string() ? value.get<std::string>() : print_json(value); }

class KeyTexts {
 public:
  KeyTexts(const TrainerProfile& profile, const EditableUserTrainerSettings& settings) : settings_(settings) {
    const auto in_command = [&](const auto& key) { return settings.is_in_command(key.first); };
    arguments_ = !settings.has_config() && !profile.argument.empty() &&
                 (profile.forms.empty() || std::ranges::any_of(profile.settings, in_command));
  }

  // A key without a value is named alone.
  std::string of(const Changes& changes) const {
    if (arguments_ && std::ranges::all_of(changes, [](const auto& change) { return change.second.has_value(); }))
      return join(settings_.arguments(changes), " ");
    std::vector<std::string> texts;
    for (const auto& [key, value] : changes)
      texts.push_back(join(settings_.path_of(key), ".") + (value ? ": " + value_text(parse_json(*value)) : ""));
    return join(texts, ", ");
  }

 private:
  const EditableUserTrainerSettings& settings_;
  bool arguments_ = false;
};

Changes changes_of(const json& keys) {
  Changes changes;
  for (const auto& [key, value] : keys.items())
    changes[key] = value.is_null() ? std::nullopt : std::optional(print_json(value));
  return changes;
}

// Half of the micro-batch, with twice the accumulation.
std::optional<std::string> halved_batch(const TrainerProfile& profile, const EditableUserTrainerSettings& settings,
                                        const KeyTexts& texts) {
  if (profile.micro_batch.empty()) return {};
  const json micro = settings.value(profile.micro_batch), steps = settings.value(profile.accumulation);
  if (!micro.is_number_integer()) return texts.of({{profile.micro_batch, {}}, {profile.accumulation, {}}});
  const auto batch = micro.get<int64_t>();
  if (batch <= 1) return "";
  Changes changes = {{profile.micro_batch, std::to_string(batch / 2)}};
  if (steps.is_number_integer() && steps.get<int64_t>() > 0 && steps.get<int64_t>() <= kMaxCount / 2)
    changes[profile.accumulation] = std::to_string(steps.get<int64_t>() * 2);
  return texts.of(changes);
}

// The config among the words of the command, which it reads itself.
void find_config(const TrainerProfile& profile, StartedTrainerCommandAndConfig& run) {
  for (const std::string& word : run.command)
    for (const std::string& form : profile.forms)
      if (std::error_code error;
          run.config_name.empty() && word.ends_with("." + form) && std::filesystem::is_regular_file(word, error))
        run.config_name = word, run.config_text = read_file(word);
}

std::vector<SettingInTrainerSyntax> words_of_trainer(StartedTrainerCommandAndConfig run) {
  TrainerProfileAndPackageVersions known = known_trainer(run.trainer, {});
  TrainerProfile& profile = known.profile;
  choose_arguments(profile, run.command);
  find_config(profile, run);
  const EditableUserTrainerSettings settings(profile, run.config_text, run.config_name, run.command, known.releases,
                                             EditableUserTrainerSettings::Absent::allowed);
  const KeyTexts texts(profile, settings);
  std::vector<SettingInTrainerSyntax> words;
  for (const auto& [setting, text] : profile.remedies) {
    const json keys = parse_json(text);
    words.push_back({setting, keys.is_string() ? keys.get<std::string>() : texts.of(changes_of(keys))});
  }
  if (const auto batch = halved_batch(profile, settings, texts)) words.push_back({"batch", *batch});
  return words;
}

}  // namespace

std::vector<SettingInTrainerSyntax> remedy_words(const StartedTrainerCommandAndConfig& run) {
  if (std::ranges::find(trainers(), run.trainer) != trainers().end()) try {
      return words_of_trainer(run);
    } catch (const UsageError&) {  // the trainer itself reports what is wrong in a config
      return {};
    } catch (const IoError&) {
      return {};
    }
  const std::optional<std::string> batch = halved_flag(run.command);
  return batch ? std::vector<SettingInTrainerSyntax>{{"batch", *batch}} : std::vector<SettingInTrainerSyntax>();
}

}  // namespace memtune::trainer
