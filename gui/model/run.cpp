#include "gui/model/run.h"

#include <algorithm>

#include "core/answer/report/words.h"
#include "core/answer/run/run_directory.h"
#include "core/base/error.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/plan/strategy/strategy.h"
#include "core/record/trace/file.h"

namespace memtune::gui {
namespace {

namespace fs = std::filesystem;

fs::path under(const fs::path& root, const std::string& relative) {
  return relative.empty() ? fs::path() : root / relative;
}

std::string problem_of(const trace::TraceReadResult& read) {
  if (read.cut())
    return "the trace cannot be read from byte " + std::to_string(read.cut_at) + " on; what comes before is shown";
  if (read.trace.lost_records > 0)
    return "the profiler lost " + std::to_string(read.trace.lost_records) + " records: there are gaps";
  return "";
}

LoadedTrace prepared(trace::TraceReadResult read) {
  LoadedTrace loaded;
  loaded.problem = problem_of(read);
  loaded.trace = std::move(read.trace);
  loaded.timeline = make_timeline(loaded.trace);
  return loaded;
}

LoadedTrace without_trace(const std::string& problem) {
  LoadedTrace loaded;
  loaded.problem = problem;
  return loaded;
}

LoadedTrace load_trace(const fs::path& path, const result::TrialResultRow& row) try {
  if (path.empty())
    return without_trace(worked(row) ? "this trial has no trace"
                                     : "no trace: the trial ended in " + to_string(row.measurement.outcome));
  return prepared(trace::read_trace(path));
} catch (const std::exception& error) {
  return without_trace(error.what());
}

// A trace alone defines its strategy and device. Its first bytes identify the file as a trace.
report::Report report_of(const trace::Trace& trace, const fs::path& path) {
  report::Report report;
  report.model = path.filename().string();
  report.device = trace.device;
  result::TrialResultRow row;
  row.measurement.strategy = trace.strategy.empty() ? path.stem().string() : trace.strategy;
  row.measurement.device = trace.device;
  report.rows.push_back(std::move(row));
  return report;
}

}  // namespace

Trial::Trial(size_t run, std::string label, result::TrialResultRow row, fs::path trace_path, fs::path plan_path,
             int64_t budget_bytes, std::unique_ptr<LoadedTrace> loaded)
    : run_(run),
      label_(std::move(label)),
      row_(std::move(row)),
      trace_path_(std::move(trace_path)),
      plan_path_(std::move(plan_path)),
      budget_bytes_(budget_bytes),
      loaded_(std::move(loaded)) {}

const LoadedTrace& Trial::load() const {
  if (loaded_) return *loaded_;
  loaded_ = std::make_unique<LoadedTrace>(load_trace(trace_path_, row_));
  if (loaded_->trace.budget_bytes == 0) loaded_->trace.budget_bytes = budget_bytes_;
  return *loaded_;
}

void Run::add(const fs::path& path) {
  if (!fs::exists(path)) throw UsageError("no such run or trace: '" + path.string() + "'; memtune sweep makes a run");
  const std::string prefix = paths.empty() ? "" : std::string(1, static_cast<char>('A' + paths.size() % 26)) + ": ";
  const size_t index = paths.size();
  std::vector<std::string> names;
  if (fs::is_directory(path)) {
    const sweep::RunDirectory directory(path);
    const sweep::SweepJsonSettingsFactsAndTrials record = directory.read_record();
    reports.push_back(sweep::make_report(directory, record));
    for (const plan::BlockModulePath& block : record.facts.program.blocks) names.push_back(block.region);
    for (const result::TrialResultRow* row : ranked(reports.back().rows))
      trials.emplace_back(index, prefix + result::label(*row), *row, under(path, row->measurement.trace),
                          under(path, row->measurement.plan), record.budget_bytes);
  } else {
    require_file("memtune view", path);
    trace::TraceReadResult read = trace::read_trace(path);
    reports.push_back(report_of(read.trace, path));
    const result::TrialResultRow& row = reports.back().rows.front();
    trials.emplace_back(index, prefix + result::label(row), row, path, fs::path(), 0,
                        std::make_unique<LoadedTrace>(prepared(std::move(read))));
  }
  blocks.push_back(std::move(names));
  paths.push_back(path);
}

size_t Run::first_trial() const {
  const auto recommended =
      std::find_if(trials.begin(), trials.end(), [](const Trial& trial) { return trial.row().recommended; });
  if (recommended != trials.end()) return static_cast<size_t>(recommended - trials.begin());
  const auto traced = std::find_if(trials.begin(), trials.end(), [](const Trial& trial) { return trial.has_trace(); });
  return traced == trials.end() ? 0 : static_cast<size_t>(traced - trials.begin());
}

size_t Run::find_trial(const std::string& name) const {
  const std::string strategy = plan::canonical_name(name);
  std::vector<std::string> labels;
  for (size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    if (name == trial.label() || strategy == trial.row().measurement.strategy || name == std::to_string(i + 1))
      return i;
    labels.push_back(trial.label());
  }
  throw UsageError(unknown_name("trial", name, labels));
}

}  // namespace memtune::gui
