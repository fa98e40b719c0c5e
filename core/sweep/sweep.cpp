#include "core/sweep/sweep.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/process/interrupt.h"
#include "core/sweep/axes.h"
#include "core/sweep/command_line.h"
#include "core/sweep/inspection.h"
#include "core/sweep/open_directory.h"
#include "core/sweep/round_robin.h"
#include "core/sweep/save_trials.h"

namespace memtune::sweep {
namespace {

class Sweep {
 public:
  Sweep(const SweepSettings& settings, SweepListener& listener)
      : settings_(settings),
        listener_(listener),
        candidates_(settings.strategies, settings.plans, !settings.request.training.scratch.empty()),
        open_(settings.directory, settings.files ? *settings.files : system_files()),
        directory_(open_.directory()),
        keys_(settings.request, find_trial_program()),
        axes_(settings, listener, directory_, keys_),
        turns_(settings, listener, open_, axes_.points(), record_) {}

  std::optional<ModelFacts> look() {
    if (!axes_.inspect_first()) return std::nullopt;
    return axes_.points().front().facts;
  }

  SweepResult run(const MakeProposer& make_proposer) {
    record_.model = settings_.model;
    record_.machine = machine(settings_.request.training.device);
    record_.request = settings_.request;
    record_.goal = settings_.goal;
    const int64_t cap = settings_.request.training.memory_cap_bytes;
    record_.budget_bytes = settings_.budget_bytes > 0 ? settings_.budget_bytes : cap;
    record_.global_batch = settings_.global_batch;
    record_.mtbf_s = settings_.mtbf_s;
    record_.keep_last = settings_.keep_last;
    earlier_ = earlier_record();
    record_.origin = earlier_.origin;
    if (!axes_.inspect_all()) return {record_, {}, true};
    record_.facts = axes_.points().front().facts;
    check_limits(settings_.request.training, settings_.budget_bytes, record_.facts);
    const std::unique_ptr<Proposer> proposer = make_proposer(candidates_, axes_.points());
    bool finished = run_proposals(*proposer);
    if (settings_.dry_run) return {record_, {}, false};
    finished = finished && measure_saves();
    return {record_, make_report(directory_, record_), !finished};
  }

 private:
  // False when a signal came. Proposals that bring nothing new are the last.
  bool run_proposals(Proposer& proposer) {
    std::vector<Proposal> proposals = proposer.next({});
    say_notes();
    std::vector<Tried> tried;
    size_t begin = 0;
    do {
      begin = turns_.trials().size();
      for (Proposal& proposal : proposals) turns_.add(trial_of(std::move(proposal)));
      tell_plan(begin);
      if (settings_.dry_run) return true;
      tell_origin();
      directory_.write_record(record_);
      if (!turns_.run(begin)) return false;
      for (size_t i = begin; i < turns_.trials().size(); ++i) tried.push_back(tried_in(turns_.trials()[i]));
      proposals = proposer.next(tried);
    } while (!proposals.empty() && begin < turns_.trials().size());
    return true;
  }

  // Under the recommended plan; false when a signal came.
  bool measure_saves() {
    if (settings_.save_modes.empty()) return true;
    const report::Report report = make_report(directory_, record_);
    for (const result::Row& row : report.rows)
      for (const TrialState& trial : turns_.trials())
        if (row.recommended && row.measurement.strategy == trial.spec.strategy && row.batch == trial.spec.batch &&
            row.sequence == trial.spec.sequence)
          return SaveTrials(settings_, listener_, open_, turns_, record_).run(trial);
    return true;
  }

  static Tried tried_in(const TrialState& trial) { return {trial.spec.strategy, trial.setting, trial.measurement}; }

  TrialState trial_of(Proposal proposal) const {
    const Setting& point = axes_.points().at(proposal.setting);
    TrialState trial;
    trial.setting = proposal.setting;
    trial.request = axes_.request_at(point);
    trial.request.plan = std::move(proposal.plan);
    const std::string reference = "reference-" + keys_.setting(trial.request).substr(0, 8) + ".bin";
    trial.request.reference = std::filesystem::absolute(directory_ / reference).string();
    trial.spec = {proposal.name, {}, {}, keys_.trial(trial.request), ""};
    if (const auto before = std::ranges::find(earlier_.trials, trial.spec.key, &TrialSpec::key);
        before != earlier_.trials.end())
      trial.spec.saves = before->saves;
    // An axis of one value is a setting like any other.
    if (settings_.batches.size() > 1 || settings_.global_batch > 0) trial.spec.batch = point.batch;
    if (settings_.sequences.size() > 1) trial.spec.sequence = point.sequence;
    return trial;
  }

  void tell_plan(size_t begin) {
    size_t reused = 0, runs = 0;
    for (size_t i = 0; i < turns_.trials().size(); ++i) {
      const size_t missing = turns_.missing_rounds(turns_.trials()[i]);
      reused += missing == 0 ? 1 : 0;
      runs += i < begin ? 0 : missing;
    }
    listener_.planned(record_.trials, reused, runs);
  }

  SweepRecord earlier_record() const try {
    return directory_.read_record();
  } catch (const UsageError&) {  // there is none
    return {};
  }

  // Whoever only looks at an earlier sweep's figures again did not make them.
  void tell_origin() {
    if (!record_.origin.written.empty() && std::ranges::all_of(turns_.trials(), &TrialState::reused)) return;
    record_.origin = record_.facts.origin;
    record_.origin.model = record_.model;
    record_.origin.command = command_line();
    record_.origin.written = trace::utc_now();
  }

  void say_notes() {
    for (const auto& notes : {settings_.notes, candidates_.notes(), axes_.notes()})
      for (const std::string& note : notes) listener_.noted(note);
  }

  const SweepSettings& settings_;
  SweepListener& listener_;
  Candidates candidates_;
  OpenDirectory open_;
  const RunDirectory& directory_;
  TrialKeys keys_;
  SweepRecord record_, earlier_;
  Axes axes_;
  RoundRobin turns_;
};

}  // namespace

std::optional<ModelFacts> look_at_model(const SweepSettings& settings, SweepListener& listener) {
  process::InterruptScope interrupts;
  return Sweep(settings, listener).look();
}

SweepResult run_sweep(const SweepSettings& settings, SweepListener& listener, const MakeProposer& make_proposer) {
  process::InterruptScope interrupts;
  return Sweep(settings, listener).run(make_proposer);
}

}  // namespace memtune::sweep
