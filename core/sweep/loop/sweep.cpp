#include "core/sweep/loop/sweep.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/loop/command_line.h"
#include "core/sweep/loop/engine_sweep_backend.h"
#include "core/sweep/loop/state_save_trials.h"
#include "core/sweep/loop/sweep_loop.h"
#include "core/sweep/proposals/candidate_strategies_and_plans.h"

namespace memtune::sweep {
namespace {

using result::Outcome;

// True if the same trial may work later, once the disk has room or no other process kills it.
bool may_pass(Outcome outcome) {
  return outcome == Outcome::disk_full || outcome == Outcome::host_oom || outcome == Outcome::killed;
}

CandidateStrategiesAndPlans candidates(const SweepSettings& settings) {
  return {settings.strategies, settings.plans, settings.request.training, settings.fallback};
}

// Measures saves of the recommended trial. Returns false if a signal arrived.
bool measure_saves(StateSaveTrials saves, const EngineSweepBackend& plans, SweepResult& result) {
  for (const result::TrialRow& row : result.report.rows)
    for (SweepTrialEntry& trial : result.record.trials)
      if (row.recommended && row.measurement.strategy == trial.strategy && row.batch == trial.batch &&
          row.sequence == trial.sequence)
        return saves.run(trial, plans.request(trial));
  return true;
}

}  // namespace

bool may_reuse(Outcome outcome, ReusePolicy reuse) {
  if (outcome == Outcome::ok) return reuse != ReusePolicy::nothing;
  return reuse == ReusePolicy::finished && !may_pass(outcome);
}

std::optional<InspectedModel> inspect_model(const SweepSettings& settings, SweepListener& listener) {
  const process::InterruptScope interrupts;
  const CandidateStrategiesAndPlans tried = candidates(settings);
  LockedRunDirectory open(settings.directory, files_of(settings));
  SweepRecord record;
  const TrialProposerFactory nothing;
  return EngineSweepBackend(settings, tried, listener, open.directory(), record, nothing).look();
}

SweepResult run_sweep(const SweepSettings& settings, SweepListener& listener,
                      const TrialProposerFactory& make_proposer) {
  const process::InterruptScope interrupts;
  const CandidateStrategiesAndPlans tried = candidates(settings);
  LockedRunDirectory open(settings.directory, files_of(settings));
  SweepResult result;
  EngineSweepBackend plans(settings, tried, listener, open.directory(), result.record, make_proposer);
  SweepLoop loop(settings, listener, open, plans, result.record);
  result.interrupted = !loop.run();
  if (settings.dry_run || result.record.trials.empty()) return result;
  result.report = make_report(open.directory(), result.record);
  if (result.interrupted || settings.save_modes.empty()) return result;
  result.interrupted =
      !measure_saves(StateSaveTrials(settings, listener, open, loop.journal(), result.record), plans, result);
  result.report = make_report(open.directory(), result.record);
  return result;
}

}  // namespace memtune::sweep
