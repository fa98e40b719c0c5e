#include "cli/command_sweep.h"

#include <algorithm>

#include "cli/app.h"
#include "cli/progress.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/sweep/command_line.h"

namespace memtune::cli {
namespace {

void add_variants(const CommandSweepFlags& flags, sweep::CommandSweep& sweep) {
  if (flags.command.empty())
    throw UsageError("no command behind --; memtune sweep --try 'batch=4;8' -- python train.py --batch {batch}");
  std::vector<sweep::VariantAxis> axes;
  for (const std::string& text : flags.tries) axes.push_back(sweep::parse_axis(text));
  sweep.command = flags.command;
  sweep.variants = sweep::expand({{"", flags.command, "", ""}}, axes);
}

// What would let one work, or fit.
std::string way_out(const CommandSweepFlags& flags, const report::Report& report) {
  if (!report.recommendation.strategy.empty()) return "a larger --budget, or variants that take less";
  const auto ended_in = [&](result::Outcome outcome) {
    return std::ranges::all_of(report.rows, [&](const result::Row& row) { return row.measurement.outcome == outcome; });
  };
  if (ended_in(result::Outcome::skipped)) return "a longer --time-limit";
  if (ended_in(result::Outcome::timeout)) return "a longer --timeout";
  return "logs are in " + flags.answer.out + "/trials/*/log.txt";
}

void say_next(const CommandSweepFlags& flags, const sweep::SweepResult& result) {
  const ConsoleFlags& console = flags.answer.console;
  if (result.interrupted) return say(console, "stopped; the same command again goes on from here");
  const auto row = std::ranges::find_if(result.report.rows, &result::Row::recommended);
  if (row == result.report.rows.end()) return say(console, "next: " + way_out(flags, result.report));
  say(console, "next: " + sweep::shell_line(row->command));
}

}  // namespace

int sweep_command(CommandSweepFlags flags) {
  check_answer(flags.answer);
  add_variants(flags, flags.settings.sweep);
  flags.settings.model = sweep::shell_line(flags.command);
  Progress progress(flags.answer.console);
  const sweep::SweepResult result = sweep::sweep_commands(flags.settings, progress);
  progress.clear();
  if (flags.settings.dry_run && !result.interrupted) {
    list_trials(result.record);
    say(flags.answer.console, "next: the same without --dry-run");
    return kDone;
  }
  if (!result.report.rows.empty()) write_answer(flags.answer, result.report);
  say_next(flags, result);
  if (result.interrupted) return kInterrupted;
  return result.report.recommendation.fits ? kDone : kFailed;
}

}  // namespace memtune::cli
