#include "core/sweep/loop/sweep_loop.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/loop/command_line.h"
#include "core/sweep/loop/trial_key.h"

namespace memtune::sweep {

SweepLoop::SweepLoop(const CommonSweepSettings& settings, SweepListener& listener, LockedRunDirectory& open,
                     SweepTrialProposerAndRunner& subject, SweepJsonSettingsFactsAndTrials& record)
    : settings_(settings),
      listener_(listener),
      directory_(open.directory()),
      subject_(subject),
      record_(record),
      turns_(settings, listener, open, subject, record) {}

bool SweepLoop::run() {
  record_.model = settings_.model;
  record_.machine = machine(subject_.device());
  record_.goal = settings_.goal;
  record_.budget_bytes = settings_.budget_bytes;
  earlier_ = earlier_record();
  record_.origin = earlier_.origin;
  return subject_.describe() && run_proposals();
}

// Returns false if a signal arrived. Ends when a proposal adds no trial. All first rounds run before any second round:
// it is better to measure every trial once than some of them twice.
bool SweepLoop::run_proposals() {
  std::vector<SweepTrialAndMeasurement> proposed = subject_.next({});
  for (const auto& notes : {settings_.notes, subject_.notes()})
    for (const std::string& note : notes) listener_.noted(note);
  size_t begin = 0;
  do {
    begin = turns_.trials().size();
    add(std::move(proposed));
    report_plan(begin);
    if (settings_.dry_run) return true;
    report_provenance();
    directory_.write_record(record_);
    if (!turns_.run_first_round(begin)) return false;
    proposed = subject_.next(turns_.trials());
    if (process::interrupted()) return false;
  } while (!proposed.empty() && begin < turns_.trials().size());
  directory_.write_record(record_);
  return turns_.run_later_rounds();
}

// Keeps saves and notes of an earlier run of the same trial.
void SweepLoop::add(std::vector<SweepTrialAndMeasurement> proposed) {
  for (SweepTrialAndMeasurement& trial : proposed) {
    const auto before = std::ranges::find(earlier_.trials, trial.spec.key, &SweepTrialEntry::key);
    const bool known = before != earlier_.trials.end();
    if (known) trial.spec.saves = before->saves, trial.spec.notes = before->notes;
    turns_.add(std::move(trial), known ? before->predicted : std::nullopt);
  }
}

void SweepLoop::report_plan(size_t begin) {
  size_t reused = 0, runs = 0, failed = 0;
  for (size_t i = 0; i < turns_.trials().size(); ++i) {
    const SweepTrialAndMeasurement& trial = turns_.trials()[i];
    const size_t missing = turns_.missing_rounds(trial);
    const bool works = trial.measurement.outcome == result::TrialOutcome::ok;
    if (trial.reused && missing == 0) ++reused, failed += works ? 0 : 1;
    runs += i < begin && !works ? 0 : missing;
  }
  listener_.planned(record_.trials, reused, runs);
  if (begin == 0 && failed > 0)
    listener_.noted(std::to_string(failed) + " of " + std::to_string(reused) +
                    " trials failed in an earlier sweep; --retry runs these again");
}

// If all trials are reused, this run measured nothing, and the earlier origin stays.
void SweepLoop::report_provenance() {
  if (!record_.origin.written.empty() && std::ranges::all_of(turns_.trials(), &SweepTrialAndMeasurement::reused))
    return;
  const std::string torch = record_.origin.torch;
  record_.origin = subject_.origin();
  if (record_.origin.torch.empty()) record_.origin.torch = torch;
  record_.origin.model = record_.model;
  record_.origin.command = command_line();
  record_.origin.written = trace::utc_now();
}

SweepJsonSettingsFactsAndTrials SweepLoop::earlier_record() const try {
  return directory_.read_record();
} catch (const UsageError&) {  // there is none, or it is damaged
  return {};
}

FileSystem& files_of(const CommonSweepSettings& settings) { return settings.files ? *settings.files : system_files(); }

}  // namespace memtune::sweep
