#include <unistd.h>

#include <deque>
#include <filesystem>
#include <utility>

#include "cli/app.h"
#include "cli/finished_run.h"
#include "cli/flags.h"
#include "cli/offer.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/report/csv.h"
#include "core/report/html.h"
#include "core/report/json.h"
#include "core/report/markdown.h"
#include "core/report/memory_snapshot.h"
#include "core/report/pareto_plot.h"
#include "core/report/perfetto.h"
#include "core/report/table.h"
#include "core/trace/file.h"

namespace memtune::cli {
namespace {

constexpr char kDescription[] =
    R"(Show a sweep again: as a table, a page, a plot, or one trial's trace for other viewers.

Examples:
  memtune report
  memtune report --html                                     one file for a colleague
  memtune report ./memtune-run --format markdown
  memtune report --format pareto                            time against memory, in the terminal
  memtune report --format perfetto --trial offload:stream -o trace.json
  memtune report --format memory-snapshot                   for pytorch.org/memory_viz)";

struct ReportFlags {
  std::string run = "./memtune-run", format = "table", trial, output, page;
  bool html = false, run_given = false;
  ConsoleFlags console;
};

const std::vector<std::string> kFormats = {"table", "json",   "csv",      "markdown",
                                           "html",  "pareto", "perfetto", "memory-snapshot"};

bool is_of_one_trial(const std::string& format) { return format == "perfetto" || format == "memory-snapshot"; }

bool shows_findings(const std::string& format) {
  return format == "table" || format == "json" || format == "markdown" || format == "html";
}

trace::Trace read_trace(const ReportFlags& flags, const FinishedRun& run, const result::Measurement& trial) {
  if (trial.trace.empty()) throw UsageError(trial.strategy + " has no trace: it ended in " + to_string(trial.outcome));
  trace::ReadTrace read = trace::read_trace(run.directory / trial.trace);
  if (read.cut())
    say(flags.console,
        trial.trace + " cannot be read from byte " + std::to_string(read.cut_at) + " on; what is there follows");
  return std::move(read.trace);
}

// The recommended trial and what it is compared with.
std::vector<const result::Row*> worth_tracing(const report::Report& report) {
  std::vector<const result::Row*> rows;
  for (const result::Row& row : report.rows) {
    if (row.recommended) rows.push_back(&row);
  }
  const result::Row* base = nullptr;
  if (!rows.empty()) base = reference_row(report, *rows.front());
  for (const result::Row& row : report.rows) {
    if (rows.empty() && !base) base = reference_row(report, row);
  }
  if (base && (rows.empty() || rows.front() != base)) rows.push_back(base);
  return rows;
}

// A page without one of its charts is better than none.
std::string html(const ReportFlags& flags, const FinishedRun& run) {
  const std::vector<const result::Row*> rows = worth_tracing(run.report);
  std::deque<trace::Trace> traces;
  std::vector<report::TracedTrial> traced;
  for (const result::Row* row : rows) try {
      traces.push_back(read_trace(flags, run, row->measurement));
      traced.push_back({row, &traces.back()});
    } catch (const Error& error) {
      say(flags.console, std::string(error.what()) + "; the page goes without its memory");
    }
  return report::html(run.report, traced);
}

std::string of_trial(const ReportFlags& flags, const FinishedRun& run, const result::Measurement& trial) {
  const trace::Trace trace = read_trace(flags, run, trial);
  return flags.format == "perfetto" ? report::perfetto(trace) : report::memory_snapshot(trace);
}

std::string of_sweep(const ReportFlags& flags, const FinishedRun& run) {
  const report::TableStyle style = flags.output == "-" ? table_style(flags.console) : report::TableStyle{};
  if (flags.format == "json") return report::to_json_text(run.report);
  if (flags.format == "csv") return report::csv(run.report);
  if (flags.format == "markdown") return report::markdown(run.report);
  if (flags.format == "html") return html(flags, run);
  if (flags.format == "pareto") return report::pareto_plot(run.report, style);
  return report::table(run.report, style);
}

void check(ReportFlags& flags) {
  if (flags.html) {
    if (flags.format != "table" && flags.format != "html")
      throw UsageError("--html and --format " + flags.format + " exclude each other");
    if (!flags.page.empty() && !flags.output.empty())
      throw UsageError("--html " + flags.page + " and --output " + flags.output + " name two files for one page");
    flags.format = "html";
    if (!flags.page.empty()) flags.output = flags.page;
  }
  choice_flag("--format", flags.format, kFormats);
  if (!flags.trial.empty() && !is_of_one_trial(flags.format)) {
    throw UsageError("--trial goes with --format perfetto or memory-snapshot: the other formats hold all trials");
  }
  if (flags.output != "-" && std::filesystem::is_directory(flags.output))
    throw UsageError(flags.output + " is a folder; name a file to write");
  if (flags.format == "memory-snapshot" && flags.output == "-" && terminal_width(STDOUT_FILENO) > 0)
    throw UsageError("a memory snapshot is not for terminals: name a file with -o, or leave -o away");
}

// Pages and pickles are files that a person opens: beside what they are made from, unless another place is named.
std::string default_output(const ReportFlags& flags, const result::Measurement* trial) {
  if (flags.format == "html") return (std::filesystem::path(flags.run) / "report.html").string();
  if (flags.format != "memory-snapshot") return "-";
  const std::filesystem::path folder = std::filesystem::path(trial->trace).parent_path();
  return (std::filesystem::path(flags.run) / folder / "memory-snapshot.pickle").string();
}

std::string next_step(const ReportFlags& flags) {
  const std::string it = flags.output == "-" ? "it" : flags.output;
  if (flags.format == "html") return "open " + it + " in a browser";
  if (flags.format == "perfetto") return "open " + it + " in ui.perfetto.dev";
  if (flags.format == "memory-snapshot") return "open " + it + " in pytorch.org/memory_viz";
  return "memtune export " + flags.run + " --trainer torchtune";
}

int run_command(ReportFlags flags) {
  // "--html ./memtune-run" means the sweep there.
  if (!flags.run_given && std::filesystem::is_directory(flags.page)) flags.run = std::exchange(flags.page, "");
  check(flags);
  FinishedRun run = open_run(flags.run);
  if (shows_findings(flags.format)) add_findings(run.directory, run.report);
  const result::Measurement* trial =
      is_of_one_trial(flags.format) ? &find_row(run.report, flags.trial).measurement : nullptr;
  if (flags.output.empty()) flags.output = default_output(flags, trial);
  write_output(flags.output, trial ? of_trial(flags, run, *trial) : of_sweep(flags, run));
  say(flags.console, "next: " + next_step(flags));
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand("report", kDescription);
  CLI::Option* run =
      command->add_option("run", flags->run, "folder of the sweep (default: ./memtune-run)")->type_name("DIR");
  offer(command->add_option("--format", flags->format, join(kFormats, ", ") + " (default: table)"), kFormats)
      ->type_name("FORMAT");
  CLI::Option* html =
      command->add_option("--html", flags->page, "one offline page (default: report.html in the sweep's folder)")
          ->expected(0, 1)
          ->type_name("[FILE]");
  command
      ->add_option("--trial", flags->trial, "whose trace perfetto and memory-snapshot show (default: the recommended)")
      ->type_name("STRATEGY");
  command
      ->add_option("-o,--output", flags->output,
                   "file to write (default: stdout; html and memory-snapshot: a file in the sweep's folder)")
      ->type_name("FILE|-");
  add_console_flags(*command, flags->console);
  command->callback([flags, run, html, &action] {
    flags->run_given = run->count() > 0;
    flags->html = html->count() > 0;
    action = [flags] { return run_command(*flags); };
  });
}

}  // namespace memtune::cli
