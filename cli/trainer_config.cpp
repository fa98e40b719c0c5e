#include "cli/trainer_config.h"

#include <filesystem>

#include "core/answer/trainer/config_to_flags_translation.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/open_file.h"
#include "core/base/shell_line.h"
#include "core/base/text.h"

namespace memtune::cli {
namespace {

namespace fs = std::filesystem;

// "--batch 2 (micro_batch_size)".
std::string told(const trainer::MemtuneFlagFromConfig& flag) {
  return "--" + flag.name + (flag.value == "true" ? "" : " " + flag.value) +
         (flag.keys.empty() ? "" : " (" + join(flag.keys, ", ") + ")");
}

// `config` is a path. With words, the command is measured already.
[[noreturn]] void refuse(const trainer::ConfigToFlagsTranslation& native, const std::string& trainer,
                         const std::string& config, const std::string& name, const std::vector<std::string>& words) {
  const std::string way = shell_line({"memtune", "sweep", "--trainer", trainer, "--config", config}) + " -- " +
                          (native.command.empty() ? "COMMAND" : native.command);
  throw UsageError(name + ": " + join(native.refusals, "; ") +
                   (words.empty() ? ". Measure its own command instead: " + way : ""));
}

}  // namespace

TrainerConfig take_trainer_config(CLI::App& command, const std::string& trainer, const std::string& config,
                                  bool text_only, const std::vector<std::string>& words) {
  if (trainer.empty()) throw UsageError("--config goes with --trainer NAME, whose config it is");
  if (config.empty() && words.empty())
    throw UsageError("--trainer goes with --config FILE, which says how it trains, or with its command behind --");
  if (!config.empty()) require_file("--config", config);
  const std::string file = fs::path(config).filename().string(), name = file.empty() ? "the command" : file;
  const trainer::ConfigToFlagsTranslation native = trainer::native_flags(
      trainer, config.empty() ? "" : read_file(config), file, words,
      text_only ? trainer::UnsupportedImageInputPolicy::left_out : trainer::UnsupportedImageInputPolicy::refused);
  if (!native.refusals.empty()) refuse(native, trainer, config, name, words);
  std::vector<std::string> taken, unknown;
  for (const trainer::MemtuneFlagFromConfig& flag : native.flags) {
    CLI::Option* option = command.get_option_no_throw("--" + flag.name);
    if (option == nullptr) unknown.push_back(told(flag));
    if (option == nullptr || option->count() > 0) continue;
    option->add_result(flag.value);
    option->run_callback();
    taken.push_back(told(flag));
  }
  for (const auto& [flag, keys] : native.missing)
    if (const CLI::Option* option = command.get_option_no_throw("--" + flag); option && option->count() == 0)
      throw UsageError((config.empty() ? name : config) + " does not say " + join(keys, ", ") + ": --" + flag +
                       " does");
  for (const auto& [flag, what] :
       {std::pair("--model", "which model it trains"), std::pair("--seq", "how long a row is")})
    if (const CLI::Option* inputs = command.get_option_no_throw("--inputs");
        command.get_option(flag)->count() == 0 && (inputs == nullptr || inputs->count() == 0))
      throw UsageError((config.empty() ? name : config) + " does not say " + what + ": " + flag + " does");
  TrainerConfig read{{"from " + name + ": " + join(taken, ", ")}, file, native.strategy};
  if (!unknown.empty()) read.notes.push_back(name + ": not predicted: " + join(unknown, ", "));
  for (const std::string& note : native.notes) read.notes.push_back(name + ": " + note);
  if (!native.unmeasured.empty()) read.notes.push_back(name + ": not measured: " + join(native.unmeasured, ", "));
  read.notes.push_back(name + (native.strategy.empty()
                                   ? ": its current settings match no strategy that is tried here: " + native.why_none
                                   : ": its current settings are nearest to " + native.strategy));
  return read;
}

}  // namespace memtune::cli
