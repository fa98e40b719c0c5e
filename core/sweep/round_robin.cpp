#include "core/sweep/round_robin.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/reference_file.h"
#include "core/plan/no_effect.h"
#include "core/process/interrupt.h"
#include "core/result/effect.h"
#include "core/sweep/command_line.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using result::Measurement;
using result::Outcome;

// The same trial may work once the disk has room and nobody kills it.
bool may_pass(Outcome outcome) {
  return outcome == Outcome::disk_full || outcome == Outcome::host_oom || outcome == Outcome::killed;
}

std::string text_of(const json& value) { return value.dump(1, '\t') + "\n"; }

}  // namespace

bool stands(Outcome outcome, Reuse reuse) {
  if (outcome == Outcome::ok) return reuse != Reuse::nothing;
  return reuse == Reuse::finished && !may_pass(outcome);
}

RoundRobin::RoundRobin(const SweepSettings& settings, SweepListener& listener, OpenDirectory& open,
                       const std::vector<Setting>& points, SweepRecord& record)
    : settings_(settings),
      listener_(listener),
      open_(open),
      directory_(open.directory()),
      points_(points),
      record_(record) {}

void RoundRobin::add(TrialState trial) {
  const auto same = [&](const TrialState& other) { return other.spec.key == trial.spec.key; };
  if (std::ranges::any_of(trials_, same)) return;
  const JournalEntry* known = journal().find(trial.spec.key);
  if (known) trial.spec.folder = known->folder;
  trial.reused = known && can_reuse(*known, trial);
  if (trial.reused) trial.measurement = *directory_.read_measurement(known->folder);
  any_worked_ |= trial.reused;
  record_.trials.push_back(trial.spec);
  trials_.push_back(std::move(trial));
}

size_t RoundRobin::missing_rounds(const TrialState& trial) {
  size_t missing = 0;
  for (size_t round = 0; round < rounds(); ++round) missing += has_round(trial, round) ? 0 : 1;
  return missing;
}

bool RoundRobin::run(size_t begin) {
  for (size_t round = 0; round < rounds(); ++round)
    for (size_t i = begin; i < trials_.size(); ++i)
      if (!has_round(trials_[i], round) && !run_round(i, round)) return false;
  return true;
}

// All of a reference is read once a sweep.
bool RoundRobin::is_whole(const std::string& reference) {
  if (whole_references_.contains(reference)) return true;
  if (!config::is_whole_reference(reference)) return false;
  whole_references_.insert(reference);
  return true;
}

bool RoundRobin::can_reuse(const JournalEntry& known, const TrialState& trial) {
  if (known.outcome.empty() || known.folder.empty()) return false;
  const auto measurement = directory_.read_measurement(known.folder);
  if (!measurement) return false;
  const bool worked = measurement->outcome == Outcome::ok;
  // Its gradients may be needed by those that are still to run.
  const result::Gradients& gradients = measurement->gradients;
  const bool made_reference = !gradients.compared || gradients.against == measurement->strategy;
  if (worked && made_reference && !is_whole(trial.request.reference)) return false;
  return stands(measurement->outcome, settings_.reuse);
}

// The first that worked at the setting, or may still: what the others are compared with.
const TrialState* RoundRobin::base_of(const TrialState& trial) const {
  const auto found = std::ranges::find_if(trials_, [&](const TrialState& other) {
    return other.setting == trial.setting && (&other == &trial || other.measurement.outcome == Outcome::ok);
  });
  return &*found;
}

// Measured, and beside what the others of its setting are.
bool RoundRobin::has_round(const TrialState& trial, size_t round) {
  if (trial.measurement.outcome != Outcome::ok) return trial.reused || round > 0;
  const std::vector<result::Round>& rounds = trial.measurement.rounds;
  if (round >= rounds.size() || rounds[round].base != base_of(trial)->spec.strategy) return false;
  const JournalEntry* known = journal().find(trial.key(round));
  return known && !known->outcome.empty();
}

bool RoundRobin::run_round(size_t i, size_t round) {
  TrialState& trial = trials_[i];
  if (process::interrupted()) return false;
  if (trial.spec.folder.empty()) {
    trial.spec.folder = directory_.new_folder(trial.spec);
    record_.trials[i] = trial.spec;
    directory_.write_record(record_);
  }
  return measure_base(trial, round) && run_trial(trial, round);
}

// Whoever goes on with an earlier run's trials measures the baseline anew beside those that are still to run.
bool RoundRobin::measure_base(const TrialState& trial, size_t round) {
  const TrialState& base = *base_of(trial);
  if (&base == &trial || baselines_.find(trial.setting, round)) return true;
  const Measurement measurement = measure(base, false);
  if (measurement.outcome == Outcome::interrupted) return false;
  const double step_ms = usable(measurement) ? measurement.step_ms.median : 0;
  baselines_.add(trial.setting, round, {base.spec.strategy, step_ms});
  return true;
}

// False when a signal came: without an end in the journal it runs again.
bool RoundRobin::run_trial(TrialState& trial, size_t round) {
  const bool first = round == 0 && !trial.reused;
  // Before the folder is made: whoever goes on after a kill finds it by the journal alone.
  journal().start(trial.key(round), trial.spec.folder, trial.spec.strategy);
  if (first) prepare(trial);
  result::Round beside;
  beside.load = load_;
  beside.cores = usable_cores();
  beside.gpu_processes = gpu_processes(settings_.request.training.device);
  const LoadWatch watch;
  listener_.started(trial.spec, static_cast<int>(round) + 1);
  const Measurement measurement = measure(trial, first);
  beside.other_cores = watch.other_cores();
  open_.keep();
  if (first) trial.measurement = measurement;
  if (measurement.outcome != Outcome::interrupted) add_round(measurement, beside, round, trial);
  if (measurement.outcome != Outcome::interrupted || first)
    directory_.write_measurement(trial.spec.folder, trial.measurement);
  listener_.ended(trial.measurement);
  if (measurement.outcome == Outcome::interrupted) return false;
  journal().end(trial.key(round), to_string(measurement.outcome));
  any_worked_ |= measurement.outcome == Outcome::ok;
  return true;
}

Measurement RoundRobin::measure(const TrialState& trial, bool first) {
  const std::filesystem::path folder = trial.spec.folder;
  const std::string name = first ? "request.json" : "round.json";
  if (!first) {
    config::TrialRequest request = trial.request;
    request.round = 1;
    request.trace = "";
    write_file(directory_ / folder / name, text_of(request), directory_.files());
  }
  return complete(run_trial_process({{"run", absolute(folder / name)},
                                     directory_ / folder / (first ? "log.txt" : "round.txt"),
                                     settings_.limit,
                                     [this](const Phase& phase) { listener_.phase(phase); },
                                     &directory_.files()}),
                  trial);
}

void RoundRobin::add_round(const Measurement& measurement, result::Round beside, size_t round, TrialState& trial) {
  if (measurement.outcome != Outcome::ok) {
    trial.measurement.outcome = measurement.outcome;
    trial.measurement.reason = measurement.reason;
    if (round > 0) trial.measurement.reason += " (in round " + std::to_string(round + 1) + ")";
    return;
  }
  if (base_of(trial) == &trial) baselines_.add(trial.setting, round, {trial.spec.strategy, measurement.step_ms.median});
  const Baseline baseline = baselines_.find(trial.setting, round).value_or(Baseline{});
  beside.base = baseline.strategy;
  beside.base_ms = baseline.step_ms;
  result::add_round(round, measurement, beside, trial.measurement);
  if (did_nothing(trial.measurement))
    trial.measurement.no_effect = plan::why_no_effect(trial.request.plan, points_.at(trial.setting).facts.program);
}

void RoundRobin::prepare(TrialState& trial) {
  const std::filesystem::path folder = directory_ / trial.spec.folder;
  FileSystem& files = directory_.files();
  make_folders(folder, files);
  for (const char* stale : {"measurement.json", "trace.mttrace"}) remove_file(folder / stale, files);
  trial.request.trace = absolute(std::filesystem::path(trial.spec.folder) / "trace.mttrace");
  trial.request.command = command_line();
  // One that cannot be read would be refused by every trial; whoever comes first makes it again.
  if (!is_whole(trial.request.reference)) remove_file(trial.request.reference, files);
  write_file(folder / "plan.json", text_of(trial.request.plan), files);
  write_file(folder / "request.json", text_of(trial.request), files);
}

// Any answer as a measurement of this trial.
Measurement RoundRobin::complete(const TrialAnswer& answer, const TrialState& trial) const {
  Measurement measurement;
  if (const auto* result = std::get_if<Measurement>(&answer)) {
    measurement = *result;
  } else if (const auto* problem = std::get_if<UsageProblem>(&answer)) {
    if (!any_worked_) throw UsageError(problem->message);
    measurement.outcome = Outcome::error;
    measurement.reason = problem->message;
  } else if (const auto* failure = std::get_if<Failure>(&answer)) {
    measurement.outcome = failure->outcome;
    measurement.reason = failure->reason;
  } else {
    measurement.outcome = Outcome::error;
    measurement.reason = "memtune-trial gave another answer than a measurement";
  }
  const std::filesystem::path folder = trial.spec.folder;
  measurement.strategy = trial.spec.strategy;
  measurement.plan = (folder / "plan.json").string();
  const bool traced = std::filesystem::exists(directory_ / folder / "trace.mttrace");
  measurement.trace = traced ? (folder / "trace.mttrace").string() : "";
  return measurement;
}

std::string RoundRobin::absolute(const std::filesystem::path& relative) const {
  return std::filesystem::absolute(directory_ / relative).string();
}

size_t RoundRobin::rounds() const { return static_cast<size_t>(std::max(1, settings_.rounds)); }

Journal& RoundRobin::journal() {
  if (!journal_) {
    journal_ = std::make_unique<Journal>(directory_ / "journal.jsonl", directory_.files());
    for (const std::string& note : journal_->notes()) listener_.noted(note);
  }
  return *journal_;
}

}  // namespace memtune::sweep
