#include <unistd.h>

#include <deque>
#include <filesystem>
#include <utility>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/offer.h"
#include "core/answer/page/rendered_interactive_page.h"
#include "core/answer/report/report_format_definition.h"
#include "core/answer/run/run_directory_with_report.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/record/trace/file.h"

namespace memtune::cli {
namespace {

constexpr char kReportDescription[] =
    R"(Show a sweep again: as a table, a page, a plot, or one trial's trace for other viewers.

Examples:
  memtune report
  memtune report --html                                     one file for a colleague
  memtune report --html --interactive                       the viewer with all traces, for any browser
  memtune report ./memtune-run --format markdown
  memtune report --format pareto                            time against memory, in the terminal
  memtune report --format perfetto --trial offload:stream -o trace.json
  memtune report --format memory-snapshot                   for pytorch.org/memory_viz)";

constexpr char kInteractiveFile[] = "view.html";

struct ReportFlags {
  std::string run = "./memtune-run", format = "table", trial, output, page;
  bool html = false, interactive = false, run_given = false;
  ConsoleFlags console;
};

trace::Trace read_trace(const ReportFlags& flags, const sweep::RunDirectoryWithReport& run,
                        const result::TrialMeasurement& trial) {
  if (trial.trace.empty())
    throw UsageError(trial.strategy + " has no trace" +
                     (trial.outcome == result::TrialOutcome::ok ? ": its steps were not traced"
                                                                : ": it ended in " + to_string(trial.outcome)));
  trace::TraceReadResult read = trace::read_trace(run.directory / trial.trace);
  if (read.cut())
    say(flags.console,
        trial.trace + " cannot be read from byte " + std::to_string(read.cut_at) + " on; what comes before is shown");
  if (read.trace.budget_bytes == 0) read.trace.budget_bytes = run.report.budget_bytes;
  return std::move(read.trace);
}

// The recommended trial and its reference.
std::vector<const result::TrialResultRow*> worth_tracing(const report::Report& report) {
  std::vector<const result::TrialResultRow*> rows;
  for (const result::TrialResultRow& row : report.rows) {
    if (row.recommended) rows.push_back(&row);
  }
  const result::TrialResultRow* base = nullptr;
  if (!rows.empty()) base = reference_row(report, *rows.front());
  for (const result::TrialResultRow& row : report.rows) {
    if (rows.empty() && !base) base = reference_row(report, row);
  }
  if (base && (rows.empty() || rows.front() != base)) rows.push_back(base);
  return rows;
}

// Reads the inputs of the format. A trace that cannot be read only loses its chart.
class Sources {
 public:
  Sources(const ReportFlags& flags, const sweep::RunDirectoryWithReport& run) : flags_(flags), run_(run) {}

  void read_memory() {
    for (const result::TrialResultRow* row : worth_tracing(run_.report)) {
      const trace::Trace* trace = nullptr;
      try {
        trace = &traces_.emplace_back(read_trace(flags_, run_, row->measurement));
      } catch (const Error& error) {
        say(flags_.console, std::string(error.what()) + "; the page has no memory chart of it");
      }
      if (trace || row->measurement.memory) traced_.push_back({row, trace, memory_paths(row->measurement)});
    }
  }

  void read_trial(const result::TrialMeasurement& trial) { traces_.push_back(read_trace(flags_, run_, trial)); }

  report::ReportWriterInput shown() const {
    return {run_.report, flags_.output == "-" ? table_style(flags_.console) : report::TerminalCapabilities{}, traced_,
            traces_.empty() ? nullptr : &traces_.front()};
  }

 private:
  std::vector<result::MemoryOfCallPath> memory_paths(const result::TrialMeasurement& trial) const try {
    if (!trial.memory || trial.memory->paths.empty()) return {};
    const std::filesystem::path path = run_.directory / std::filesystem::path(trial.trace).parent_path();
    return result::parse_call_paths(read_file(path / trial.memory->paths, run_.directory.files()));
  } catch (const Error& error) {
    say(flags_.console, std::string(error.what()) + "; the page has no flame graph of it");
    return {};
  }

  const ReportFlags& flags_;
  const sweep::RunDirectoryWithReport& run_;
  std::deque<trace::Trace> traces_;
  std::vector<report::TrialWithTraceForMemoryChart> traced_;
};

std::string names_of_trial_formats() {
  std::vector<std::string> names;
  for (const report::ReportFormatDefinition& format : report::formats()) {
    if (format.per_trial) names.push_back(format.name);
  }
  return join(names, " or ");
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
  if (flags.interactive && flags.format != "html") throw UsageError("--interactive goes with --html");
  choice_flag("--format", flags.format, report::format_names());
  const report::ReportFormatDefinition& format = report::find_format(flags.format);
  if (!flags.trial.empty() && !format.per_trial) {
    throw UsageError("--trial goes with --format " + names_of_trial_formats() + ": the other formats hold all trials");
  }
  if (flags.output != "-" && std::filesystem::is_directory(flags.output))
    throw UsageError(flags.output + " is a folder; name a file to write");
  if (format.binary && flags.output == "-" && terminal_width(STDOUT_FILENO) > 0)
    throw UsageError("a " + flags.format + " is not for terminals: name a file with -o, or leave -o away");
}

// Pages and pickles are written next to their input, unless another path is given.
std::string default_output(const ReportFlags& flags, const report::ReportFormatDefinition& format,
                           const result::TrialMeasurement* trial) {
  if (!*format.default_file) return "-";
  const std::filesystem::path folder = trial ? std::filesystem::path(trial->trace).parent_path() : "";
  return (std::filesystem::path(flags.run) / folder / format.default_file).string();
}

std::string next_step(const ReportFlags& flags, const report::ReportFormatDefinition& format, bool of_commands) {
  const std::string it = flags.output == "-" ? "it" : flags.output;
  if (*format.opened_in) return "open " + it + " in " + format.opened_in;
  if (of_commands) return "memtune view " + flags.run;
  return "memtune export " + flags.run + " --trainer torchtune";
}

// `beside`: no path was given, and the run may be a stranger's. No link in its folder leads the answer elsewhere.
void write_report(const sweep::RunDirectory& directory, bool beside, const std::string& path, const std::string& text) {
  if (!beside || path == "-") return write_output(path, text);
  write_file(path, text, directory.files());
}

// The page with the viewer. It has all trials with their traces, so that nothing is chosen here.
int write_interactive(ReportFlags flags) {
  const sweep::RunDirectory directory(flags.run);
  const std::string viewer = read_file(report::find_web_viewer());
  const report::RenderedInteractivePage page = report::interactive_page(viewer, directory);
  for (const std::string& note : page.notes) say(flags.console, "note: " + note);
  const bool beside = flags.output.empty();
  if (beside) flags.output = (std::filesystem::path(flags.run) / kInteractiveFile).string();
  write_report(directory, beside, flags.output, page.text);
  const std::string it = flags.output == "-" ? "it" : flags.output;
  say(flags.console,
      "next: open " + it + " in a browser (" + format_bytes(static_cast<int64_t>(page.text.size())) + ")");
  return kDone;
}

int run_command(ReportFlags flags) {
  // "--html ./memtune-run" means the sweep in that folder.
  if (!flags.run_given && std::filesystem::is_directory(flags.page)) flags.run = std::exchange(flags.page, "");
  check(flags);
  const report::ReportFormatDefinition& format = report::find_format(flags.format);
  if (flags.interactive) return write_interactive(std::move(flags));
  sweep::RunDirectoryWithReport run = sweep::open_run(flags.run);
  if (format.shows_findings) sweep::add_findings(run.directory, run.report);
  const result::TrialMeasurement* trial =
      format.per_trial ? &sweep::find_row(run.report, flags.trial).measurement : nullptr;
  const bool beside = flags.output.empty();
  if (beside) flags.output = default_output(flags, format, trial);
  Sources sources(flags, run);
  if (format.shows_memory) sources.read_memory();
  if (trial) sources.read_trial(*trial);
  write_report(run.directory, beside, flags.output, format.write(sources.shown()));
  say(flags.console, "next: " + next_step(flags, format, is_of_commands(run.report)));
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand("report", kReportDescription);
  CLI::Option* run =
      command->add_option("run", flags->run, "folder of the sweep (default: ./memtune-run)")->type_name("DIR");
  offer(command->add_option("--format", flags->format, join(report::format_names(), ", ") + " (default: table)"),
        report::format_names())
      ->type_name("FORMAT");
  CLI::Option* html =
      command->add_option("--html", flags->page, "one offline page (default: report.html in the sweep's folder)")
          ->expected(0, 1)
          ->type_name("[FILE]");
  command->add_flag("--interactive", flags->interactive,
                    "with --html: a page with the viewer and all traces (default: view.html in the sweep's folder)");
  command->add_option("--trial", flags->trial, "trial for perfetto and memory-snapshot (default: the recommended one)")
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
