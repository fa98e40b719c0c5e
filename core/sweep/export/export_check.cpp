#include "core/sweep/export/export_check.h"

#include <algorithm>
#include <optional>

#include "core/answer/run/run_directory_with_report.h"
#include "core/answer/trainer/config_check.h"
#include "core/answer/trainer/export_comments.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::sweep {
namespace {

// The sweep in `folder`. None if there is no sweep, or if it is of a command, whose variants are not strategies.
std::optional<RunDirectoryWithReport> run_in(const std::string& folder) try {
  RunDirectoryWithReport run = open_run(folder);
  return is_of_commands(run.report) ? std::nullopt : std::optional(std::move(run));
} catch (const UsageError&) {
  return {};
}

std::string measured(const std::optional<RunDirectoryWithReport>& run, const std::string& folder,
                     const std::string& strategy) {
  if (!run) return "not measured: there is no sweep in " + folder;
  const auto& rows = run->report.rows;
  const auto row = std::ranges::find_if(rows, [&](const result::TrialResultRow& one) {
    return one.measurement.strategy == strategy && one.measurement.outcome == result::TrialOutcome::ok;
  });
  if (row == rows.end()) return "not measured in " + folder + ": memtune sweep --strategy '" + strategy + "' does";
  return "measured as " + strategy + " in " + folder + ": " + trainer::measured_text(*row, run->report);
}

}  // namespace

TrainerMemorySettingsEffectReport check_trainer_config(const TrainerMemorySettingsEffectRequest& config) {
  const std::optional<RunDirectoryWithReport> run = run_in(config.run);
  const trainer::ConfigProblemsAndEquivalentStrategy check = trainer::check_config(
      config.trainer, read_file(config.file), config.file, config.releases, run ? run->report.blocks : 0);
  std::string text;
  for (const trainer::ConfigProblem& problem : check.problems)
    text += config.file + (problem.line > 0 ? ":" + std::to_string(problem.line) : "") + ": " + problem.text + "\n";
  if (check.meaning) {
    text += "it amounts to " + std::string(check.meaning->nearly ? "nearly " : "") + check.meaning->strategy + " (" +
            check.meaning->reason + ")\n";
    for (const std::string& note : check.meaning->notes) text += "note: " + note + "\n";
    text += measured(run, config.run, check.meaning->strategy) + "\n";
  } else {
    text += "it amounts to no strategy of memtune's: " + check.why_none + "\n";
  }
  for (const std::string& note : check.notes) text += "note: " + note + "\n";
  std::string shown;  // the config and the run may be untrusted
  for (const std::string& line : split(text, '\n'))
    if (!line.empty()) shown += printable(line) + "\n";
  return {shown, check.problems.empty()};
}

}  // namespace memtune::sweep
