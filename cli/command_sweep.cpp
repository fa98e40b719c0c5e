#include "cli/command_sweep.h"

#include <algorithm>
#include <filesystem>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "core/answer/report/alternatives.h"
#include "core/answer/result/ranking.h"
#include "core/answer/trainer/config_space.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/plan/strategy/strategy.h"
#include "core/sweep/commands/planned_variants.h"
#include "core/sweep/directory/finished_run.h"
#include "core/sweep/loop/command_line.h"

namespace memtune::cli {
namespace {

// Checks that the command or a config takes the trainer's settings.
void check_places(const CommandSweepFlags& flags) {
  if (flags.trainer.empty())
    throw UsageError("--config and --allow go with --trainer NAME, whose settings they are about");
  if (flags.config.empty() && std::ranges::find(flags.command, sweep::kArgumentsWord) == flags.command.end())
    throw UsageError(
        "--trainer without --config replaces the word {args} of the command by settings, and the command has none");
  if (flags.config.empty()) return;
  require_file("--config", flags.config);
  if (!sweep::has_placeholder(flags.command, sweep::kConfigPlaceholder))
    throw UsageError("--config: the command has no {config}, which the path of each variant's config replaces");
}

// A word {args} is replaced by all arguments.
std::vector<std::string> with_arguments(const std::vector<std::string>& command,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const std::string& word : command)
    if (word == sweep::kArgumentsWord)
      words.insert(words.end(), arguments.begin(), arguments.end());
    else
      words.push_back(word);
  return words;
}

// All variants of the trainer, the user's own first. Without a trainer only the command itself.
std::vector<sweep::CommandVariant> variants_of(const CommandSweepFlags& flags, sweep::CommandSweepRecord& sweep) {
  if (flags.trainer.empty() && flags.config.empty() && flags.allowed.empty()) return {{"", flags.command, "", ""}};
  check_places(flags);
  const std::string text = flags.config.empty() ? "" : read_file(flags.config);
  const std::string name = std::filesystem::path(flags.config).filename().string();
  trainer::ConfigSpaceOptions settings;
  for (const std::string& what : flags.allowed)
    settings.optimizer |= choice_flag("--allow", what, kMayChange) == "optimizer";
  settings.command = flags.command;
  const trainer::ConfigSpace space = trainer::make_space(flags.trainer, text, name, settings);
  for (const trainer::SkippedConfig& skipped : space.skipped) sweep.skipped.push_back({skipped.name, skipped.reason});
  std::vector<sweep::CommandVariant> variants;
  for (const trainer::ConfigVariant& variant : space.variants)
    variants.push_back({variant.name, with_arguments(flags.command, variant.arguments), space.file_name, variant.config,
                        space.variants.front().name, variant.parts, variant.like});
  return variants;
}

// Figures that a sweep of a model in the folder measured, at the recommended batch.
std::vector<sweep::EngineTrialResult> native_figures(const CommandSweepFlags& flags) {
  std::vector<sweep::EngineTrialResult> figures;
  if (flags.like.empty()) return figures;
  if (flags.trainer.empty()) throw UsageError("--like goes with --trainer NAME, whose settings it is about");
  const report::Report report = sweep::open_run(flags.like).report;
  if (report::is_of_commands(report))
    throw UsageError("--like: " + flags.like +
                     " is a sweep of a command; it takes one of a model, memtune sweep --model");
  const result::Recommendation& at = report.recommendation;
  for (const result::TrialRow& row : report.rows)
    if (row.batch == at.batch && row.sequence == at.sequence) {
      const bool worked = result::usable(row.measurement);
      figures.push_back({plan::canonical_name(row.measurement.strategy), worked ? row.measurement.step_ms.median : 0,
                         static_cast<double>(result::peak(row))});
    }
  return figures;
}

void add_variants(const CommandSweepFlags& flags, sweep::CommandSweepRecord& sweep) {
  if (flags.command.empty())
    throw UsageError("no command behind --; memtune sweep --try 'batch=4;8' -- python train.py --batch {batch}");
  std::vector<sweep::VariantAxis> axes;
  for (const std::string& text : flags.tries) axes.push_back(sweep::parse_axis(text));
  sweep.trainer = flags.trainer;
  sweep.variants = sweep::expand(variants_of(flags, sweep), axes);
}

// For --dry-run: the variants that memtune's own trials will choose from.
std::string later_text(const CommandSweepFlags& flags) {
  std::vector<std::string> names;
  for (const sweep::CommandVariant& variant : flags.settings.sweep.variants)
    if (sweep::is_about_strategies(variant, flags.settings.sweep.variants) && variant.own != variant.name)
      names.push_back(variant.name + " (" + variant.like + ")");
  const std::string settings =
      names.empty() ? "" : "those that fit the budget and are the fastest of\n#   " + join(names, ", ") + ";\n# and ";
  return "# then, by memtune's own trials of the model: " + settings + "a plan as memtune_plan.py\n";
}

// Advice on how to make a variant work, or fit.
std::string way_out(const CommandSweepFlags& flags, const report::Report& report) {
  if (!report.recommendation.strategy.empty()) return "a larger --budget, or variants that take less";
  if (all_ended_in(report, result::Outcome::skipped)) return "a longer --time-limit";
  if (all_ended_in(report, result::Outcome::timeout)) return "a longer --timeout";
  return "logs are in " + flags.answer.out + "/trials/*/log.txt";
}

void say_next(const CommandSweepFlags& flags, const sweep::SweepResult& result) {
  const ConsoleFlags& console = flags.answer.console;
  if (result.interrupted) return say(console, "stopped; run the same command again to continue");
  const auto row = std::ranges::find_if(result.report.rows, &result::TrialRow::recommended);
  if (row == result.report.rows.end()) return say(console, "next: " + way_out(flags, result.report));
  if (!result.report.planned) return say(console, "next: " + sweep::shell_line(row->command));
  const std::string run = "memtune export " + sweep::shell_line({flags.answer.out});
  std::vector<std::string> lines;
  for (const report::AnswerAlternative& alternative : report::alternatives(result.report)) {
    if (!alternative.fits) continue;
    const std::string into = flags.config.empty() ? "" : " --into " + sweep::shell_line({flags.config});
    if (alternative.by_plan)
      lines.push_back(run + " --trainer python -o memtune_plan.py writes " + alternative.text);
    else if (!flags.trainer.empty())
      lines.push_back(run + " --trainer " + flags.trainer + into + " writes " + alternative.text);
  }
  lines.push_back("memtune view " + sweep::shell_line({flags.answer.out}));
  for (size_t i = 0; i < lines.size(); ++i) say(console, (i == 0 ? "next: " : "  or: ") + lines[i]);
}

}  // namespace

int sweep_command(CommandSweepFlags flags) {
  check_answer(flags.answer);
  flags.settings.native = native_figures(flags);
  add_variants(flags, flags.settings.sweep);
  Progress progress(flags.answer.console);
  std::optional<sweep::NativeSweeps> native;
  std::optional<sweep::PlannedVariants> planned;
  if (flags.native) {
    const int64_t cap = flags.settings.sweep.memory_cap_bytes;
    native.emplace(*flags.native, progress);
    planned.emplace(*native, flags.native->strategies,
                    flags.settings.budget_bytes > 0 ? flags.settings.budget_bytes : cap, flags.plan_asked,
                    flags.settings.dry_run);
    flags.settings.choose = [&](std::span<const sweep::TrialState> tried, sweep::CommandSweepRecord& sweep) {
      return planned->next(tried, sweep);
    };
  }
  const sweep::SweepResult result = sweep::sweep_commands(flags.settings, progress);
  progress.clear();
  if (flags.settings.dry_run && !result.interrupted) {
    list_trials(result.record, planned ? later_text(flags) : "");
    say(flags.answer.console, "next: the same without --dry-run");
    return kDone;
  }
  if (!result.report.rows.empty()) write_answer(flags.answer, result.report);
  say_next(flags, result);
  if (result.interrupted) return kInterrupted;
  return result.report.recommendation.fits ? kDone : kFailed;
}

}  // namespace memtune::cli
