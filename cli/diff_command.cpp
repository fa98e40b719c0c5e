#include <algorithm>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/offer.h"
#include "core/answer/report/text/diff_text.h"
#include "core/answer/report/text/json.h"
#include "core/answer/result/sweep_regression_limit.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/torch_version.h"

namespace memtune::cli {
namespace {

constexpr char kDiffDescription[] = R"(Compare two sweeps, trial by trial: folders of sweeps, or reports as JSON.

Examples:
  memtune diff before after
  memtune diff before.json memtune-run --format json
  memtune diff before after --fail-if 'peak>+2%' --fail-if 'step>+3%'

Limits compare B with A: peak, step, exposed and hidden (in points of percent), > or <, a share or an amount.
Exit codes: 0 within all limits, 1 beyond one or a trial that worked in A does not in B (with --fail-if), 2 usage.)";

const std::vector<std::string> kFormats = {"table", "json"};

struct DiffFlags {
  std::string a, b, format = "table", output = "-";
  std::vector<std::string> limits;
  bool any_model = false;
  ConsoleFlags console;
};

report::Report open_report(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return report::from_json_text(read_file(path), path);
  return sweep::open_run(path).report;
}

// Different commands, machines or settings can be compared, but the user should know.
void say_differences(const ConsoleFlags& console, const report::Report& a, const report::Report& b) {
  const auto say_difference = [&](const char* what, const std::string& in_a, const std::string& in_b) {
    if (in_a != in_b) say(console, std::string(what) + " differ: A " + in_a + "; B " + in_b);
  };
  say_difference(is_of_commands(a) ? "commands" : "models", a.model, b.model);
  say_difference("devices", a.device, b.device);
  say_difference("settings", a.settings, b.settings);
  if (other_torch_minor(a.origin.torch, b.origin.torch))
    say_difference("PyTorch releases", torch_minor(a.origin.torch), torch_minor(b.origin.torch));
}

// Violations of the limits, one line each.
std::vector<std::string> objections(const std::vector<result::SweepRegressionLimit>& limits,
                                    const std::vector<result::SweepDiffRow>& rows) {
  std::vector<std::string> lines;
  if (limits.empty()) return lines;
  for (const result::SweepDiffRow& row : rows) {
    if (row.broke())
      lines.push_back(result::label(*row.a) + ": worked in A, " + (row.b ? "fails in B" : "was not tried in B"));
  }
  for (const result::SweepRegressionLimit& limit : limits) {
    for (std::string& line : limit.broken_by(rows)) lines.push_back(std::move(line));
  }
  return lines;
}

int run_command(const DiffFlags& flags) {
  choice_flag("--format", flags.format, kFormats);
  const std::vector<result::SweepRegressionLimit> limits(flags.limits.begin(), flags.limits.end());
  const report::Report a = open_report(flags.a), b = open_report(flags.b);
  const std::vector<result::SweepDiffRow> rows = result::diff(a.rows, b.rows);
  const std::string models = "A is " + a.model + ", B is " + b.model;
  if (std::ranges::none_of(rows, &result::SweepDiffRow::in_both))
    throw UsageError("nothing to compare: " + models + ", and no trial is the same");
  if (a.model != b.model && !is_of_commands(a) && !flags.any_model)
    throw UsageError("two models: " + models + "; --any-model compares them all the same");
  say_differences(flags.console, a, b);
  write_output(flags.output, flags.format == "json" ? report::diff_json(rows) : report::diff_table(rows));
  const std::vector<std::string> beyond = objections(limits, rows);
  for (const std::string& line : beyond) say(flags.console, line);
  if (limits.empty()) say(flags.console, "next: memtune view " + flags.a + " " + flags.b);
  return beyond.empty() ? kDone : kFailed;
}

}  // namespace

void add_diff(CLI::App& app, Action& action) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App* command = app.add_subcommand("diff", kDiffDescription);
  command->add_option("A", flags->a, "folder of a sweep, or a report as JSON")->required()->type_name(" ");
  command->add_option("B", flags->b, "folder or report to compare with it")->required()->type_name(" ");
  offer(command->add_option("--format", flags->format, "table or json (default: table)"), kFormats)
      ->type_name("FORMAT");
  add_list(*command, "--fail-if", flags->limits, "exit code 1 if a trial of B does this; repeat")->type_name("LIMIT");
  command->add_flag("--any-model", flags->any_model, "compare also if the models have other names");
  command->add_option("-o,--output", flags->output, "file to write (default: stdout)")->type_name("FILE|-");
  add_console_flags(*command, flags->console);
  command->callback([flags, &action] { action = [flags] { return run_command(*flags); }; });
}

}  // namespace memtune::cli
