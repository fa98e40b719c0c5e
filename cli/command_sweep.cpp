#include "cli/command_sweep.h"

#include <algorithm>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "core/answer/report/alternatives.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/base/error.h"
#include "core/base/shell_line.h"
#include "core/base/text.h"
#include "core/sweep/commands/engine_guided_variant_selector.h"
#include "core/sweep/commands/trainer_variants.h"

namespace memtune::cli {
namespace {

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
  if (sweep::all_ended_in(report, result::TrialOutcome::skipped)) return "a longer --time-limit";
  if (sweep::all_ended_in(report, result::TrialOutcome::timeout)) return "a longer --timeout";
  return "logs are in " + flags.answer.out + "/trials/*/log.txt";
}

void say_next(const CommandSweepFlags& flags, const sweep::SweepRecordAndReport& result) {
  const ConsoleFlags& console = flags.answer.console;
  if (result.interrupted) return say(console, "stopped; run the same command again to continue");
  const auto row = std::ranges::find_if(result.report.rows, &result::TrialResultRow::recommended);
  if (row == result.report.rows.end()) return say(console, "next: " + way_out(flags, result.report));
  if (!result.report.planned) return say(console, "next: " + shell_line(row->command));
  const std::string run = "memtune export" + flags.folder.argument();
  std::vector<std::string> lines;
  for (const report::BestTrialWithTrainerSettingsOrPythonPlan& alternative : report::alternatives(result.report)) {
    if (!alternative.fits) continue;
    const std::string into = flags.config.empty() ? "" : " --into " + shell_line({flags.config});
    if (alternative.by_plan)
      lines.push_back(run + " --trainer python -o memtune_plan.py writes " + alternative.text);
    else if (!flags.trainer.empty())
      lines.push_back(run + " --trainer " + flags.trainer + into + " writes " + alternative.text);
  }
  lines.push_back("memtune view" + flags.folder.argument());
  for (size_t i = 0; i < lines.size(); ++i) say(console, (i == 0 ? "next: " : "  or: ") + lines[i]);
}

}  // namespace

int sweep_command(CommandSweepFlags flags) {
  check_answer(flags.answer);
  if (!flags.like.empty() && flags.trainer.empty())
    throw UsageError("--like goes with --trainer NAME, whose settings it is about");
  if (!flags.like.empty()) flags.settings.native = sweep::engine_results(flags.like);
  sweep::add_variants({flags.command, flags.tries, flags.trainer, flags.config, flags.allowed}, flags.settings.sweep);
  Progress progress(flags.answer.console, &flags.folder);
  std::optional<sweep::TrainingCommandModelEngineSweepRunner> native;
  std::optional<sweep::EngineGuidedVariantSelector> planned;
  if (flags.native) {
    const int64_t cap = flags.settings.sweep.memory_cap_bytes;
    native.emplace(*flags.native, progress);
    planned.emplace(*native, flags.native->strategies,
                    flags.settings.budget_bytes > 0 ? flags.settings.budget_bytes : cap, flags.plan_asked,
                    flags.settings.dry_run);
    flags.settings.choose = [&](std::span<const sweep::SweepTrialAndMeasurement> tried,
                                sweep::CommandSweepSettingsAndVariants& sweep) { return planned->next(tried, sweep); };
  }
  const sweep::SweepRecordAndReport result = sweep::sweep_commands(flags.settings, progress);
  progress.clear();
  flags.folder.finish(result.report, flags.answer.console);
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
