#include "cli/app.h"
#include "cli/finished_run.h"
#include "cli/flags.h"
#include "core/base/error.h"
#include "core/report/csv.h"
#include "core/report/json.h"
#include "core/report/perfetto.h"
#include "core/trace/file.h"

namespace memtune::cli {
namespace {

constexpr char kDescription[] = R"(Show a sweep again: as a table, JSON, CSV, or one trial's trace for Perfetto.

Examples:
  memtune report
  memtune report ./memtune-run --format json
  memtune report --format perfetto --trial offload:stream -o trace.json)";

struct ReportFlags {
  std::string run = "./memtune-run", format = "table", trial, output = "-";
  ConsoleFlags console;
};

std::string perfetto(const ReportFlags& flags, const FinishedRun& run) {
  const trace::Measurement& trial = find_row(run.report, flags.trial).measurement;
  if (trial.trace.empty()) throw UsageError(trial.strategy + " has no trace: it ended in " + to_string(trial.outcome));
  const trace::ReadTrace read = trace::read_trace(run.directory / trial.trace);
  if (read.cut())
    say(flags.console,
        "the trace cannot be read from byte " + std::to_string(read.cut_at) + " on; what is there follows");
  return report::perfetto(read.trace);
}

std::string format(const ReportFlags& flags, const FinishedRun& run) {
  if (flags.format == "json") return report::to_json_text(run.report);
  if (flags.format == "csv") return report::csv(run.report);
  if (flags.format == "perfetto") return perfetto(flags, run);
  return report::table(run.report, flags.output == "-" ? table_style(flags.console) : report::TableStyle{});
}

int run_command(const ReportFlags& flags) {
  choice_flag("--format", flags.format, {"table", "json", "csv", "perfetto"});
  if (!flags.trial.empty() && flags.format != "perfetto") {
    throw UsageError("--trial goes with --format perfetto only: the other formats hold all trials");
  }
  FinishedRun run = open_run(flags.run);
  if (flags.format == "table" || flags.format == "json") add_findings(run.directory, run.report);
  write_output(flags.output, format(flags, run));
  if (flags.format == "perfetto") {
    say(flags.console, "next: open " + (flags.output == "-" ? "it" : flags.output) + " in ui.perfetto.dev");
  } else {
    say(flags.console, "next: memtune export " + flags.run + " --trainer torchtune");
  }
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand("report", kDescription);
  command->add_option("run", flags->run, "folder of the sweep (default: ./memtune-run)")->type_name("DIR");
  command->add_option("--format", flags->format, "table, json, csv or perfetto (default: table)")->type_name("FORMAT");
  command->add_option("--trial", flags->trial, "whose trace (default: the recommended)")->type_name("STRATEGY");
  command->add_option("-o,--output", flags->output, "file to write (default: stdout)")->type_name("FILE|-");
  add_console_flags(*command, flags->console);
  command->callback([flags, &action] { action = [flags] { return run_command(*flags); }; });
}

}  // namespace memtune::cli
