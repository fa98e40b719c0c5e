#include "core/sweep/sweep.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/sweep/candidates.h"
#include "core/sweep/interrupt.h"
#include "core/sweep/journal.h"
#include "core/sweep/trial_key.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using result::Measurement;
using result::Outcome;

std::vector<std::optional<int64_t>> axis(const std::vector<int64_t>& values) {
  if (values.empty()) return {std::nullopt};
  return {values.begin(), values.end()};
}

// The run directory; one made for a sweep that ends before its first trial has does not stay.
class OpenDirectory {
 public:
  explicit OpenDirectory(const std::filesystem::path& path) : directory(path) {
    std::error_code error;
    made_ = std::filesystem::create_directories(path, error);
    if (error) throw IoError("cannot make the folder " + path.string() + ": " + error.message());
    lock_ = std::make_unique<FileLock>(path / "lock");
  }
  ~OpenDirectory() {
    std::error_code ignored;
    if (made_ && !used) std::filesystem::remove_all(directory.root(), ignored);
  }
  OpenDirectory(const OpenDirectory&) = delete;
  OpenDirectory& operator=(const OpenDirectory&) = delete;

  RunDirectory directory;
  bool used = false;

 private:
  bool made_ = false;
  std::unique_ptr<FileLock> lock_;
};

class Sweep {
 public:
  Sweep(const SweepSettings& settings, SweepListener& listener)
      : settings_(settings),
        listener_(listener),
        candidates_(settings.strategies, settings.plans),
        open_(settings.directory),
        directory_(open_.directory),
        keys_(settings.request, find_trial_program()) {}

  std::optional<ModelFacts> look() {
    if (!inspect()) return std::nullopt;
    return record_.facts;
  }

  SweepResult run() {
    record_.model = settings_.model;
    record_.machine = machine(settings_.request.training.device);
    record_.request = settings_.request;
    record_.goal = settings_.goal;
    const int64_t cap = settings_.request.training.memory_cap_bytes;
    record_.budget_bytes = settings_.budget_bytes > 0 ? settings_.budget_bytes : cap;
    if (!inspect()) return {record_, {}, true};
    plan_trials();
    if (settings_.dry_run) return {record_, {}, false};
    directory_.write_record(record_);
    const bool finished = run_trials();
    return {record_, make_report(directory_, record_), !finished};
  }

 private:
  struct Trial {
    TrialSpec spec;
    config::TrialRequest request;
    bool reused = false;
  };

  std::string absolute(const std::filesystem::path& relative) const {
    return std::filesystem::absolute(directory_ / relative).string();
  }

  config::TrialRequest request_for(std::optional<int64_t> batch, std::optional<int64_t> sequence) const {
    config::TrialRequest request = settings_.request;
    request.training.batch = batch.value_or(request.training.batch);
    request.training.sequence = sequence.value_or(request.training.sequence);
    return request;
  }

  // Fills the record's facts; false when a signal came.
  bool inspect() {
    const config::TrialRequest request =
        request_for(axis(settings_.batches).front(), axis(settings_.sequences).front());
    record_.inspect_key = keys_.setting(request);
    if (facts_are_known()) return true;
    std::filesystem::create_directories(directory_ / "inspect");
    write_file(directory_ / "inspect/request.json", json(request).dump(1, '\t') + "\n");
    const TrialAnswer answer = run_trial_process({{"inspect", absolute("inspect/request.json")},
                                                  directory_ / "inspect/log.txt",
                                                  settings_.limit,
                                                  [this](const Phase& phase) { listener_.inspecting(phase); }});
    if (const auto* problem = std::get_if<UsageProblem>(&answer)) throw UsageError(problem->message);
    if (const auto* facts = std::get_if<ModelFacts>(&answer)) {
      record_.facts = *facts;
      return true;
    }
    const auto* failure = std::get_if<Failure>(&answer);
    if (failure && failure->outcome == Outcome::interrupted) return false;
    throw Error("cannot look at the model: " + (failure ? failure->reason : "memtune-trial gave another answer"));
  }

  // A sweep that goes on need not load the model again to know it.
  bool facts_are_known() try {
    SweepRecord earlier = directory_.read_record();
    if (earlier.inspect_key != record_.inspect_key) return false;
    record_.facts = std::move(earlier.facts);
    return true;
  } catch (const Error&) {
    return false;
  }

  void plan_trials() {
    candidates_.check(record_.facts.program);
    for (const std::string& note : settings_.notes) listener_.noted(note);
    for (const auto& batch : axis(settings_.batches)) {
      for (const auto& sequence : axis(settings_.sequences)) {
        for (const std::string& strategy : candidates_.names()) add_trial(strategy, batch, sequence);
      }
    }
    const auto reused = std::count_if(trials_.begin(), trials_.end(), [](const Trial& trial) { return trial.reused; });
    listener_.planned(record_.trials, static_cast<size_t>(reused));
  }

  void add_trial(const std::string& strategy, std::optional<int64_t> batch, std::optional<int64_t> sequence) {
    Trial trial;
    trial.request = request_for(batch, sequence);
    trial.request.plan = candidates_.make_plan(strategy, record_.facts.program);
    trial.request.reference = absolute("reference-" + keys_.setting(trial.request).substr(0, 8) + ".bin");
    // An axis of one value is a setting like any other.
    if (settings_.batches.size() < 2) batch.reset();
    if (settings_.sequences.size() < 2) sequence.reset();
    trial.spec = {strategy, batch, sequence, keys_.trial(trial.request), ""};
    const JournalEntry* known = journal().find(trial.spec.key);
    if (known) trial.spec.folder = known->folder;
    trial.reused = known && can_reuse(*known, trial);
    any_worked_ |= trial.reused;
    trials_.push_back(trial);
    record_.trials.push_back(trial.spec);
  }

  bool can_reuse(const JournalEntry& known, const Trial& trial) const {
    if (settings_.reuse == Reuse::nothing || known.outcome.empty() || known.folder.empty()) return false;
    const auto measurement = directory_.read_measurement(known.folder);
    if (!measurement) return false;
    const bool worked = measurement->outcome == Outcome::ok;
    // Its gradients may be needed by those that are still to run.
    if (worked && !measurement->gradients.compared && !std::filesystem::exists(trial.request.reference)) return false;
    return worked || settings_.reuse == Reuse::finished;
  }

  // False when a signal came.
  bool run_trials() {
    for (size_t i = 0; i < trials_.size(); ++i) {
      Trial& trial = trials_[i];
      if (trial.reused) continue;
      if (interrupted()) return false;
      if (trial.spec.folder.empty()) trial.spec.folder = directory_.new_folder(trial.spec);
      record_.trials[i] = trial.spec;
      directory_.write_record(record_);
      if (!run_trial(trial)) return false;
    }
    return true;
  }

  bool run_trial(Trial& trial) {
    const std::filesystem::path folder = trial.spec.folder;
    prepare(trial, folder);
    journal().start(trial.spec.key, trial.spec.folder, trial.spec.strategy);
    listener_.started(trial.spec);
    const TrialAnswer answer = run_trial_process({{"run", absolute(folder / "request.json")},
                                                  directory_ / folder / "log.txt",
                                                  settings_.limit,
                                                  [this](const Phase& phase) { listener_.phase(phase); }});
    const Measurement measurement = complete(answer, trial);
    directory_.write_measurement(trial.spec.folder, measurement);
    open_.used = true;
    listener_.ended(measurement);
    if (measurement.outcome == Outcome::interrupted) return false;  // without an end it runs again
    journal().end(trial.spec.key, to_string(measurement.outcome));
    any_worked_ |= measurement.outcome == Outcome::ok;
    return true;
  }

  void prepare(Trial& trial, const std::filesystem::path& folder) const {
    std::filesystem::create_directories(directory_ / folder);
    for (const char* stale : {"measurement.json", "trace.mttrace"})
      std::filesystem::remove(directory_ / folder / stale);
    trial.request.trace = absolute(folder / "trace.mttrace");
    write_file(directory_ / folder / "plan.json", json(trial.request.plan).dump(1, '\t') + "\n");
    write_file(directory_ / folder / "request.json", json(trial.request).dump(1, '\t') + "\n");
  }

  // Any answer as a measurement of this trial.
  Measurement complete(const TrialAnswer& answer, const Trial& trial) const {
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

  Journal& journal() {
    if (!journal_) {
      journal_ = std::make_unique<Journal>(directory_ / "journal.jsonl");
      for (const std::string& note : journal_->notes()) listener_.noted(note);
    }
    return *journal_;
  }

  const SweepSettings& settings_;
  SweepListener& listener_;
  Candidates candidates_;
  OpenDirectory open_;
  const RunDirectory& directory_;
  TrialKeys keys_;
  std::unique_ptr<Journal> journal_;
  SweepRecord record_;
  std::vector<Trial> trials_;
  bool any_worked_ = false;
};

}  // namespace

std::optional<ModelFacts> look_at_model(const SweepSettings& settings, SweepListener& listener) {
  InterruptScope interrupts;
  return Sweep(settings, listener).look();
}

SweepResult run_sweep(const SweepSettings& settings, SweepListener& listener) {
  Candidates(settings.strategies, settings.plans).check(!settings.request.training.scratch.empty());
  InterruptScope interrupts;
  return Sweep(settings, listener).run();
}

}  // namespace memtune::sweep
