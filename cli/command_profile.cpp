#include "cli/command_profile.h"

#include <filesystem>

#include "cli/app.h"
#include "cli/progress.h"
#include "core/attach/command.h"
#include "core/base/file.h"
#include "core/base/layout.h"
#include "core/base/own_folder.h"
#include "core/process/interrupt.h"
#include "core/report/text/json.h"
#include "core/report/text/table.h"
#include "core/sweep/command_line.h"

namespace memtune::cli {
namespace {

namespace fs = std::filesystem;

// "2 steps of warm-up, 5 measured; loss 10.4 → 9.81".
std::string settings_line(const CommandProfile& profile, const result::Measurement& measurement) {
  std::string line = std::to_string(profile.steps.warmup) + (profile.steps.warmup == 1 ? " step" : " steps") +
                     " of warm-up, " + std::to_string(measurement.step_ms.samples.size()) + " measured";
  if (measurement.loss.empty()) return line;
  const auto text = [](double loss) { return fixed(loss, 4); };
  return line + "; loss " + text(measurement.loss.front()) + " → " + text(measurement.loss.back());
}

report::Report make_report(const CommandProfile& profile, const attach::CommandResult& result) {
  report::Report report;
  report.version = MEMTUNE_VERSION;
  report.model = sweep::shell_line(profile.command);
  report.device = result.row.measurement.device;
  if (!result.row.measurement.step_ms.samples.empty()) report.settings = settings_line(profile, result.row.measurement);
  report.origin.written = trace::utc_now();
  report.origin.command = sweep::command_line();
  report.origin.model = report.model;
  report.origin.memtune = MEMTUNE_VERSION;
  report.origin.torch = result.torch;
  report.rows = {result.row};
  report.notes = result.notes;
  return report;
}

}  // namespace

int profile_command(const CommandProfile& profile) {
  check_output("--json", profile.json);
  const fs::path folder = fs::absolute(profile.out).lexically_normal() / "command";
  make_folders(folder);
  OwnFolder files(folder);
  const FileLock lock(folder / "lock", files);
  Progress progress(profile.console);
  attach::CommandSettings settings;
  settings.command = profile.command;
  settings.steps = profile.steps;
  settings.folder = folder;
  settings.limit = profile.limit;
  settings.files = &files;
  settings.progress = [&](int64_t step, int64_t steps) {
    progress.phase({"step", static_cast<int>(step), static_cast<int>(steps)});
  };
  const process::InterruptScope interrupts;
  sweep::TrialSpec trial;
  trial.strategy = settings.name;
  progress.started(trial, 1);
  attach::CommandResult result = attach::measure_command(settings);
  progress.clear();
  result::Measurement& measurement = result.row.measurement;
  if (!measurement.trace.empty()) measurement.trace = "command/" + measurement.trace;
  const report::Report report = make_report(profile, result);
  if (!profile.json.empty()) write_output(profile.json, report::to_json_text(report));
  if (profile.json != "-") write_output("-", report::table(report, table_style(profile.console)));
  if (!measurement.trace.empty())
    say(profile.console, "trace: " + (fs::path(profile.out) / measurement.trace).string());
  if (measurement.outcome == result::Outcome::interrupted) return kInterrupted;
  if (measurement.outcome == result::Outcome::ok) return kDone;
  say(profile.console, "next: its log is in " + (fs::path(profile.out) / "command/log.txt").string());
  return kFailed;
}

}  // namespace memtune::cli
