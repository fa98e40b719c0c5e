#include "core/sweep/sweep.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/reference_file.h"
#include "core/sweep/command_line.h"
#include "core/sweep/inspection.h"
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

// " batch 2 and sequence 1024"
std::string describe(const Setting& point) {
  std::string text;
  if (point.batch) text += " batch " + std::to_string(*point.batch);
  if (point.sequence) text += (text.empty() ? " sequence " : " and sequence ") + std::to_string(*point.sequence);
  return text;
}

// The same trial may work once the disk has room and nobody kills it.
bool may_pass(Outcome outcome) {
  return outcome == Outcome::disk_full || outcome == Outcome::host_oom || outcome == Outcome::killed;
}

// The run directory; one made for a sweep that ends before its first trial has does not stay.
class OpenDirectory {
 public:
  OpenDirectory(const std::filesystem::path& path, FileSystem& files) : directory(path, files) {
    std::error_code error;
    made_ = std::filesystem::create_directories(path, error);
    if (error) throw IoError("cannot make the folder " + path.string() + ": " + error.message());
    lock_ = std::make_unique<FileLock>(path / "lock", directory.files());
    directory.check_format();
    directory.remove_temporaries();
  }
  ~OpenDirectory() {
    if (made_ && !used) directory.remove_looks();
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
        candidates_(settings.strategies, settings.plans, !settings.request.training.scratch.empty()),
        open_(settings.directory, settings.files ? *settings.files : system_files()),
        directory_(open_.directory),
        keys_(settings.request, find_trial_program()) {}

  std::optional<ModelFacts> look() {
    points_ = {{axis(settings_.batches).front(), axis(settings_.sequences).front(), {}}};
    if (!inspect(points_.front())) return std::nullopt;
    return points_.front().facts;
  }

  SweepResult run(const MakeProposer& make_proposer) {
    record_.model = settings_.model;
    record_.machine = machine(settings_.request.training.device);
    record_.request = settings_.request;
    record_.goal = settings_.goal;
    const int64_t cap = settings_.request.training.memory_cap_bytes;
    record_.budget_bytes = settings_.budget_bytes > 0 ? settings_.budget_bytes : cap;
    if (!inspect_all()) return {record_, {}, true};
    const std::unique_ptr<Proposer> proposer = make_proposer(candidates_, points_);
    const bool finished = run_rounds(*proposer);
    if (settings_.dry_run) return {record_, {}, false};
    return {record_, make_report(directory_, record_), !finished};
  }

 private:
  struct Trial {
    size_t setting = 0;
    TrialSpec spec;
    config::TrialRequest request;
    bool reused = false;
  };

  std::string absolute(const std::filesystem::path& relative) const {
    return std::filesystem::absolute(directory_ / relative).string();
  }

  config::TrialRequest request_for(const Setting& point) const {
    config::TrialRequest request = settings_.request;
    request.training.batch = point.batch.value_or(request.training.batch);
    request.training.sequence = point.sequence.value_or(request.training.sequence);
    return request;
  }

  // False when a signal came.
  bool inspect_all() {
    for (const auto& batch : axis(settings_.batches))
      for (const auto& sequence : axis(settings_.sequences)) {
        points_.push_back({batch, sequence, {}});
        if (!inspect(points_.back())) return false;
      }
    record_.facts = points_.front().facts;
    return true;
  }

  // Fills the setting's facts; false when a signal came. That one of several cannot be looked at need not be the end:
  // its trials will say why they fail.
  bool inspect(Setting& point) {
    const config::TrialRequest request = request_for(point);
    TrialAnswer answer = sweep::inspect(request, keys_.setting(request), directory_, settings_.limit,
                                        [this](const Phase& phase) { listener_.inspecting(phase); });
    const auto* failure = std::get_if<Failure>(&answer);
    if (failure && failure->outcome == Outcome::interrupted) return false;
    if (auto* facts = std::get_if<ModelFacts>(&answer)) {
      point.facts = std::move(*facts);
      return true;
    }
    const auto* problem = std::get_if<UsageProblem>(&answer);
    const std::string reason = problem   ? problem->message
                               : failure ? failure->reason
                                         : "memtune-trial gave another answer";
    if (points_.size() > 1) {
      point.facts = points_.front().facts;
      inspection_notes_.push_back("the model cannot be looked at with" + describe(point) + " (" + reason +
                                  "): plans are made as with" + describe(points_.front()));
      return true;
    }
    if (problem) throw UsageError(reason);
    throw Error("cannot look at the model: " + reason);
  }

  // False when a signal came. A round that brings nothing new is the last.
  bool run_rounds(Proposer& proposer) {
    std::vector<Proposal> round = proposer.next({});
    say_notes();
    size_t begin = 0;
    do {
      begin = trials_.size();
      for (Proposal& proposal : round) add_trial(std::move(proposal));
      listener_.planned(record_.trials, static_cast<size_t>(std::ranges::count_if(trials_, &Trial::reused)));
      if (settings_.dry_run) return true;
      directory_.write_record(record_);
      if (!run_trials(begin)) return false;
      round = proposer.next(tried_);
    } while (!round.empty() && begin < trials_.size());
    return true;
  }

  void say_notes() {
    for (const auto& notes : {settings_.notes, candidates_.notes(), inspection_notes_})
      for (const std::string& note : notes) listener_.noted(note);
  }

  void add_trial(Proposal proposal) {
    const Setting& point = points_.at(proposal.setting);
    Trial trial;
    trial.setting = proposal.setting;
    trial.request = request_for(point);
    trial.request.plan = std::move(proposal.plan);
    trial.request.reference = absolute("reference-" + keys_.setting(trial.request).substr(0, 8) + ".bin");
    trial.spec = {proposal.name, {}, {}, keys_.trial(trial.request), ""};
    const auto same = [&](const TrialSpec& other) { return other.key == trial.spec.key; };
    if (std::ranges::any_of(record_.trials, same)) return;
    // An axis of one value is a setting like any other.
    if (settings_.batches.size() > 1) trial.spec.batch = point.batch;
    if (settings_.sequences.size() > 1) trial.spec.sequence = point.sequence;
    const JournalEntry* known = journal().find(trial.spec.key);
    if (known) trial.spec.folder = known->folder;
    trial.reused = known && can_reuse(*known, trial);
    any_worked_ |= trial.reused;
    trials_.push_back(trial);
    record_.trials.push_back(trial.spec);
  }

  // All of a reference is read once a sweep.
  bool is_whole(const std::string& reference) {
    if (whole_references_.contains(reference)) return true;
    if (!config::is_whole_reference(reference)) return false;
    whole_references_.insert(reference);
    return true;
  }

  bool can_reuse(const JournalEntry& known, const Trial& trial) {
    if (settings_.reuse == Reuse::nothing || known.outcome.empty() || known.folder.empty()) return false;
    const auto measurement = directory_.read_measurement(known.folder);
    if (!measurement) return false;
    const bool worked = measurement->outcome == Outcome::ok;
    // Its gradients may be needed by those that are still to run.
    const result::Gradients& gradients = measurement->gradients;
    const bool made_reference = !gradients.compared || gradients.against == measurement->strategy;
    if (worked && made_reference && !is_whole(trial.request.reference)) return false;
    return worked || (settings_.reuse == Reuse::finished && !may_pass(measurement->outcome));
  }

  // Those from `begin` on; false when a signal came.
  bool run_trials(size_t begin) {
    for (size_t i = begin; i < trials_.size(); ++i) {
      Trial& trial = trials_[i];
      if (trial.reused) {
        tried_.push_back({trial.spec.strategy, trial.setting, *directory_.read_measurement(trial.spec.folder)});
        continue;
      }
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
    // First: whoever goes on after a kill finds the folder by the journal alone.
    journal().start(trial.spec.key, trial.spec.folder, trial.spec.strategy);
    prepare(trial, folder);
    listener_.started(trial.spec);
    const TrialAnswer answer = run_trial_process({{"run", absolute(folder / "request.json")},
                                                  directory_ / folder / "log.txt",
                                                  settings_.limit,
                                                  [this](const Phase& phase) { listener_.phase(phase); },
                                                  &directory_.files()});
    const Measurement measurement = complete(answer, trial);
    directory_.write_measurement(trial.spec.folder, measurement);
    open_.used = true;
    listener_.ended(measurement);
    if (measurement.outcome == Outcome::interrupted) return false;  // without an end it runs again
    journal().end(trial.spec.key, to_string(measurement.outcome));
    any_worked_ |= measurement.outcome == Outcome::ok;
    tried_.push_back({trial.spec.strategy, trial.setting, measurement});
    return true;
  }

  void prepare(Trial& trial, const std::filesystem::path& folder) {
    make_folders(directory_ / folder, directory_.files());
    for (const char* stale : {"measurement.json", "trace.mttrace"})
      directory_.files().unlink(directory_ / folder / stale);
    trial.request.trace = absolute(folder / "trace.mttrace");
    trial.request.command = command_line();
    // One that cannot be read would be refused by every trial; whoever comes first makes it again.
    if (!is_whole(trial.request.reference)) std::filesystem::remove(trial.request.reference);
    write_file(directory_ / folder / "plan.json", json(trial.request.plan).dump(1, '\t') + "\n", directory_.files());
    write_file(directory_ / folder / "request.json", json(trial.request).dump(1, '\t') + "\n", directory_.files());
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
      journal_ = std::make_unique<Journal>(directory_ / "journal.jsonl", directory_.files());
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
  std::vector<Setting> points_;  // of the axes
  std::vector<std::string> inspection_notes_;
  std::vector<Trial> trials_;
  std::vector<Tried> tried_;
  std::set<std::string> whole_references_;
  bool any_worked_ = false;
};

}  // namespace

std::optional<ModelFacts> look_at_model(const SweepSettings& settings, SweepListener& listener) {
  InterruptScope interrupts;
  return Sweep(settings, listener).look();
}

SweepResult run_sweep(const SweepSettings& settings, SweepListener& listener, const MakeProposer& make_proposer) {
  InterruptScope interrupts;
  return Sweep(settings, listener).run(make_proposer);
}

}  // namespace memtune::sweep
