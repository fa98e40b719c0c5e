#include "core/sweep/commands/trainer_variants.h"

#include <algorithm>
#include <filesystem>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/answer/trainer/trainer_config_variants.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::sweep {
namespace {

// Checks that the command or a config takes the trainer's settings.
void check_places(const CommandVariantGenerationOptions& options) {
  if (options.trainer.empty())
    throw UsageError("--config and --allow go with --trainer NAME, whose settings they are about");
  trainer::require_variants(options.trainer);
  if (options.config.empty() && std::ranges::find(options.command, kArgumentsWord) == options.command.end())
    throw UsageError(
        "--trainer without --config replaces the word {args} of the command by settings, and the command has none");
  if (options.config.empty()) return;
  require_file("--config", options.config);
  if (!has_placeholder(options.command, kConfigPlaceholder))
    throw UsageError("--config: the command has no {config}, which the path of each variant's config replaces");
}

// A word {args} is replaced by all arguments.
std::vector<std::string> with_arguments(const std::vector<std::string>& command,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const std::string& word : command)
    if (word == kArgumentsWord)
      words.insert(words.end(), arguments.begin(), arguments.end());
    else
      words.push_back(word);
  return words;
}

// All variants of the trainer, the user's own first. Without a trainer only the command itself.
std::vector<CommandVariant> variants_of(const CommandVariantGenerationOptions& options,
                                        CommandSweepSettingsAndVariants& sweep) {
  const bool optimizer = std::ranges::find(options.allowed, kMayChange.front()) != options.allowed.end();
  if (options.trainer.empty() && options.config.empty() && !optimizer) return {{"", options.command, "", ""}};
  check_places(options);
  const std::string text = options.config.empty() ? "" : read_file(options.config);
  const std::string name = std::filesystem::path(options.config).filename().string();
  trainer::TrainerConfigVariantGenerationOptions settings;
  settings.optimizer = optimizer;
  settings.command = options.command;
  const trainer::TrainerConfigVariants space = trainer::make_space(options.trainer, text, name, settings);
  for (const trainer::SkippedTrainerConfigVariant& skipped : space.skipped)
    sweep.skipped.push_back({skipped.name, skipped.reason});
  std::vector<CommandVariant> variants;
  for (const trainer::TrainerConfigVariant& variant : space.variants)
    variants.push_back({variant.name, with_arguments(options.command, variant.arguments), space.file_name,
                        variant.config, space.variants.front().name, variant.parts, variant.like});
  return variants;
}

}  // namespace

void add_variants(const CommandVariantGenerationOptions& options, CommandSweepSettingsAndVariants& sweep) {
  if (options.command.empty())
    throw UsageError("no command behind --; memtune sweep --try 'batch=4;8' -- python train.py --batch {batch}");
  std::vector<CommandPlaceholderSweepAxis> axes;
  for (const std::string& text : options.tries) axes.push_back(parse_axis(text));
  for (const std::string& what : options.allowed) {
    const auto axis = std::ranges::find(axes, what, &CommandPlaceholderSweepAxis::name);
    if (axis != axes.end()) axis->changes_training = true;
    std::vector<std::string> known = kMayChange;
    if (axis != axes.end() || std::ranges::find(known, what) != known.end()) continue;
    for (const CommandPlaceholderSweepAxis& each : axes) known.push_back(each.name);
    throw UsageError("--allow: " + unknown_name("change", what, known));
  }
  sweep.trainer = options.trainer;
  sweep.variants = expand(variants_of(options, sweep), axes);
}

std::vector<EngineStrategyStepTimeAndPeak> engine_results(const std::string& run) {
  std::vector<EngineStrategyStepTimeAndPeak> figures;
  const report::Report report = open_run(run).report;
  if (report::is_of_commands(report))
    throw UsageError("--like: " + run + " is a sweep of a command; it takes one of a model, memtune sweep --model");
  const result::Recommendation& at = report.recommendation;
  for (const result::TrialResultRow& row : report.rows)
    if (row.batch == at.batch && row.sequence == at.sequence) {
      const bool worked = result::usable(row.measurement);
      figures.push_back({plan::canonical_name(row.measurement.strategy), worked ? row.measurement.step_ms.median : 0,
                         static_cast<double>(required_bytes(row))});
    }
  return figures;
}

}  // namespace memtune::sweep
