#include "core/sweep/loop/round_robin_trial_runner.h"

#include <algorithm>
#include <utility>

#include "core/answer/result/loss_comparison.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/torch_version.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/directory/copied_trial_and_its_py_torch_version.h"

namespace memtune::sweep {

using result::TrialMeasurement;
using result::TrialOutcome;
using std::chrono::milliseconds;

RoundRobinTrialRunner::RoundRobinTrialRunner(const CommonSweepSettings& settings, SweepListener& listener,
                                             LockedRunDirectory& open, SweepTrialProposerAndRunner& subject,
                                             SweepJsonSettingsFactsAndTrials& record)
    : settings_(settings),
      listener_(listener),
      open_(open),
      directory_(open.directory()),
      subject_(subject),
      record_(record),
      time_(settings.time_limit) {}

void RoundRobinTrialRunner::add(SweepTrialAndMeasurement trial, const std::optional<result::TrialPrediction>& earlier) {
  const auto same = [&](const SweepTrialAndMeasurement& other) { return other.spec.key == trial.spec.key; };
  if (std::ranges::any_of(trials_, same)) return;
  if (!journal().find(trial.spec.key)) adopt(trial);
  const JournaledTrialState* known = journal().find(trial.spec.key);
  if (known) trial.spec.folder = known->folder;
  trial.reused = known && can_reuse(*known, trial);
  if (trial.reused) {
    trial.measurement = *directory_.read_measurement(known->folder);
    trial.spec.predicted = earlier;  // the current prediction may be based on this measurement
  }
  record_.trials.push_back(trial.spec);
  trials_.push_back(std::move(trial));
}

// Takes over the trial with all its rounds, if another run has measured it.
void RoundRobinTrialRunner::adopt(SweepTrialAndMeasurement& trial) {
  if (settings_.reuse == EarlierTrialReusePolicy::nothing || settings_.dry_run || settings_.other_runs.empty()) return;
  std::optional<CopiedTrialAndItsPyTorchVersion> adopted =
      adopt_trial(directory_, settings_.other_runs, trial.spec, record_.origin.torch);
  if (!adopted) return;
  trial.spec = std::move(adopted->spec);
  if (record_.origin.torch.empty()) record_.origin.torch = adopted->torch;
  open_.keep();
  const size_t rounds = directory_.read_measurement(trial.spec.folder).value_or(TrialMeasurement{}).rounds.size();
  for (size_t round = 0; round < std::max<size_t>(1, rounds); ++round) {
    journal().start(trial.key(round), trial.spec.folder, trial.spec.strategy);
    journal().end(trial.key(round), to_string(TrialOutcome::ok));
  }
}

size_t RoundRobinTrialRunner::missing_rounds(const SweepTrialAndMeasurement& trial) {
  size_t missing = 0;
  for (size_t round = 0; round < rounds(); ++round) missing += has_round(trial, round) ? 0 : 1;
  return missing;
}

bool RoundRobinTrialRunner::run_later_rounds() {
  for (size_t round = 1; round < rounds(); ++round)
    if (!run_round_of_all(0, round)) return false;
  return true;
}

bool RoundRobinTrialRunner::run_round_of_all(size_t begin, size_t round) {
  for (size_t i = begin; i < trials_.size(); ++i) {
    if (has_round(trials_[i], round)) continue;
    const Turn turn = run_round(i, round);
    if (turn == Turn::interrupted) return false;
    if (turn == Turn::no_time) leave_out(trials_[i], round);
  }
  return true;
}

bool RoundRobinTrialRunner::can_reuse(const JournaledTrialState& known, const SweepTrialAndMeasurement& trial) {
  if (known.outcome.empty() || known.folder.empty()) return false;
  const auto measurement = directory_.read_measurement(known.folder);
  return measurement && may_reuse(measurement->outcome, settings_.reuse) && subject_.reuse(trial, *measurement);
}

// The baseline: of the trials of the setting that worked, the first in which the fewest tensors have no gradient, or
// `trial` itself if it comes first and has not run.
const SweepTrialAndMeasurement* RoundRobinTrialRunner::base_of(const SweepTrialAndMeasurement& trial) const {
  const SweepTrialAndMeasurement* base = nullptr;
  for (const SweepTrialAndMeasurement& other : trials_) {
    const bool worked = other.measurement.outcome == TrialOutcome::ok && !other.measurement.rounds.empty();
    if (other.setting != trial.setting || !(worked || &other == &trial)) continue;
    if (!base || (worked && result::trains_more(other.measurement, base->measurement))) base = &other;
  }
  return base;
}

// True if it was measured and compared with the baseline of its setting.
bool RoundRobinTrialRunner::has_round(const SweepTrialAndMeasurement& trial, size_t round) {
  if (trial.measurement.outcome != TrialOutcome::ok) return trial.reused || round > 0;
  const std::vector<result::TrialRoundTimesAndMachineLoad>& rounds = trial.measurement.rounds;
  if (round >= rounds.size() || rounds[round].base != base_of(trial)->spec.strategy) return false;
  const JournaledTrialState* known = journal().find(trial.key(round));
  return known && !known->outcome.empty();
}

RoundRobinTrialRunner::Turn RoundRobinTrialRunner::run_round(size_t i, size_t round) {
  const SweepTrialAndMeasurement& trial = trials_[i];
  if (process::interrupted()) return Turn::interrupted;
  if (trial.spec.folder.empty()) make_folder(i);
  if (!has_time_for(trial)) return Turn::no_time;
  const Turn base = measure_base(trial, round);
  return base == Turn::taken ? run_trial(i, round) : base;
}

void RoundRobinTrialRunner::make_folder(size_t i) {
  trials_[i].spec.folder = directory_.new_folder(trials_[i].spec);
  record_.trials[i] = trials_[i].spec;
  directory_.write_record(record_);
}

// Expects the duration of its latest round, or the average of the others.
bool RoundRobinTrialRunner::has_time_for(const SweepTrialAndMeasurement& trial) const {
  milliseconds expected{0};
  for (const auto& [key, took] : took_) expected += took / static_cast<int64_t>(took_.size());
  const auto own = took_.find(trial.spec.key);
  return time_.has_room(own == took_.end() ? expected : own->second);
}

// True if it ended because of the time limit of the whole run, not its own.
bool RoundRobinTrialRunner::ran_out_of_time(const TrialMeasurement& measurement) const {
  return measurement.outcome == TrialOutcome::timeout && time_.is_over();
}

// Without an end in the journal, the next run of memtune measures it. A trial without any measurement gets a row.
void RoundRobinTrialRunner::leave_out(SweepTrialAndMeasurement& trial, size_t round) {
  if (round > 0 || trial.reused) return;
  journal().start(trial.key(round), trial.spec.folder, trial.spec.strategy);
  make_folders(directory_ / trial.spec.folder, directory_.files());
  trial.measurement = {};
  trial.measurement.strategy = trial.spec.strategy;
  trial.measurement.outcome = TrialOutcome::skipped;
  trial.measurement.reason = "not reached within the time limit of " +
                             std::to_string(std::chrono::ceil<std::chrono::seconds>(time_.limit()).count()) + " s";
  listener_.started(trial.spec, 1);
  directory_.write_measurement(trial.spec.folder, trial.measurement);
  open_.keep();
  listener_.ended(trial.measurement);
}

// If an earlier run measured the baseline, measures it again, so that later trials have one of this run.
RoundRobinTrialRunner::Turn RoundRobinTrialRunner::measure_base(const SweepTrialAndMeasurement& trial, size_t round) {
  const SweepTrialAndMeasurement& base = *base_of(trial);
  if (&base == &trial || baselines_.find(trial.setting, round)) return Turn::taken;
  const TrialMeasurement measurement = measure(base, false).measurement;
  if (measurement.outcome == TrialOutcome::interrupted) return Turn::interrupted;
  if (ran_out_of_time(measurement)) return Turn::no_time;
  const double step_ms = usable(measurement) ? measurement.step_ms.median : 0;
  baselines_.add(trial.setting, round, {base.spec.strategy, step_ms});
  return Turn::taken;
}

// An interrupted trial has no end in the journal and runs again.
RoundRobinTrialRunner::Turn RoundRobinTrialRunner::run_trial(size_t i, size_t round) {
  SweepTrialAndMeasurement& trial = trials_[i];
  const bool first = round == 0 && !trial.reused;
  // Before the folder is created: after a kill, only the journal leads to it.
  journal().start(trial.key(round), trial.spec.folder, trial.spec.strategy);
  if (first) {
    const std::filesystem::path folder = directory_ / trial.spec.folder;
    make_folders(folder, directory_.files());
    for (const char* stale : {"measurement.json", "trace.mttrace", "memory.stacks"})
      remove_file(folder / stale, directory_.files());
    subject_.prepare(trial);
  }
  result::TrialRoundTimesAndMachineLoad beside;
  beside.load = load_;
  beside.cores = usable_cores();
  beside.gpu_processes = gpu_processes(subject_.device());
  const OtherProcessCpuLoadMonitor watch;
  listener_.started(trial.spec, static_cast<int>(round) + 1);
  const TrialMeasurementSavesAndNotes measured = measure(trial, first);
  const TrialMeasurement& measurement = measured.measurement;
  beside.other_cores = watch.other_cores();
  open_.keep();
  if (ran_out_of_time(measurement)) return Turn::no_time;
  if (first) trial.measurement = measurement;
  if (first) keep_what_else(measured, i);
  if (measurement.outcome != TrialOutcome::interrupted) add_round(measurement, beside, round, trial);
  if (measurement.outcome != TrialOutcome::interrupted || first)
    directory_.write_measurement(trial.spec.folder, trial.measurement);
  listener_.ended(trial.measurement);
  if (measurement.outcome == TrialOutcome::interrupted) return Turn::interrupted;
  journal().end(trial.key(round), to_string(measurement.outcome));
  return Turn::taken;
}

TrialMeasurementSavesAndNotes RoundRobinTrialRunner::measure(const SweepTrialAndMeasurement& trial, bool first) {
  const auto began = std::chrono::steady_clock::now();
  TrialMeasurementSavesAndNotes measured = subject_.measure(trial, first, time_.for_trial());
  took_[trial.spec.key] = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began);
  refuse_other_torch(measured.torch);
  measured.measurement.strategy = trial.spec.strategy;
  const std::filesystem::path trace = std::filesystem::path(trial.spec.folder) / "trace.mttrace";
  measured.measurement.trace = std::filesystem::exists(directory_ / trace) ? trace.string() : "";
  return measured;
}

// Keys of a command's trials do not name its PyTorch, which only a run shows. The trial has no end in the journal.
void RoundRobinTrialRunner::refuse_other_torch(const std::string& torch) const {
  if (!other_torch_minor(record_.origin.torch, torch) ||
      std::ranges::none_of(trials_, &SweepTrialAndMeasurement::reused))
    return;
  throw UsageError("trials in " + directory_.root().string() + " are of PyTorch " + torch_minor(record_.origin.torch) +
                   ", this one is of " + torch_minor(torch) + ": sweep into another folder with --out");
}

// Stores the saves, notes and versions of a trial in sweep.json.
void RoundRobinTrialRunner::keep_what_else(const TrialMeasurementSavesAndNotes& measured, size_t i) {
  SweepTrialEntry& spec = trials_[i].spec;
  if (!measured.saves.empty()) spec.saves = measured.saves;
  spec.notes = measured.notes;
  if (!measured.torch.empty()) record_.origin.torch = measured.torch;
  record_.trials[i] = spec;
  directory_.write_record(record_);
}

void RoundRobinTrialRunner::add_round(const TrialMeasurement& measurement, result::TrialRoundTimesAndMachineLoad beside,
                                      size_t round, SweepTrialAndMeasurement& trial) {
  if (measurement.outcome != TrialOutcome::ok) {
    trial.measurement.outcome = measurement.outcome;
    trial.measurement.reason = measurement.reason;
    trial.measurement.oom = measurement.oom;
    if (round > 0) trial.measurement.reason += " (in round " + std::to_string(round + 1) + ")";
    return;
  }
  if (base_of(trial) == &trial) baselines_.add(trial.setting, round, {trial.spec.strategy, measurement.step_ms.median});
  const BaselineStepTime baseline = baselines_.find(trial.setting, round).value_or(BaselineStepTime{});
  beside.base = baseline.strategy;
  beside.base_ms = baseline.step_ms;
  result::add_round(round, measurement, beside, trial.measurement);
  subject_.evaluate(trial);
}

size_t RoundRobinTrialRunner::rounds() const { return static_cast<size_t>(std::max(1, settings_.rounds)); }

SweepTrialJournal& RoundRobinTrialRunner::journal() {
  if (!journal_) {
    journal_ = std::make_unique<SweepTrialJournal>(directory_ / "journal.jsonl", directory_.files());
    for (const std::string& note : journal_->notes()) listener_.noted(note);
  }
  return *journal_;
}

}  // namespace memtune::sweep
