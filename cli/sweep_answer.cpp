#include "cli/sweep_answer.h"

#include "core/answer/report/text/csv.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/table.h"
#include "core/answer/report/words.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/base/utf8.h"

namespace memtune::cli {

void check_answer(const AnswerFlags& flags) { check_outputs("--json", flags.json, "--csv", flags.csv); }

void write_answer(const AnswerFlags& flags, report::Report report) {
  sweep::add_findings(sweep::RunDirectory(flags.out), report);
  // Files first, so that they exist even if writing to stdout fails.
  const bool stdout_taken = flags.json == "-" || flags.csv == "-";
  if (!flags.json.empty()) write_output(flags.json, report::to_json_text(report));
  if (!flags.csv.empty()) write_output(flags.csv, report::csv(report));
  if (!stdout_taken) write_output("-", report::table(report, table_style(flags.console)));
}

void list_trials(const sweep::SweepJsonSettingsFactsAndTrials& record, const std::string& later) {
  std::string text;
  for (const sweep::SweepTrialEntry& trial : record.trials) {
    text += trial.strategy;
    if (trial.batch) text += "  batch " + std::to_string(*trial.batch);
    if (trial.sequence) text += "  sequence " + std::to_string(*trial.sequence);
    if (trial.predicted) text += "  # predicted: " + report::predicted_text(*trial.predicted);
    for (const std::string& note : trial.notes) text += "  # " + note;
    text += "\n";
  }
  write_output("-", printable(text + later));
}

}  // namespace memtune::cli
