#include "core/sweep/loop/sweep.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/loop/command_line.h"
#include "core/sweep/loop/engine_sweep_backend.h"
#include "core/sweep/loop/state_save_mode_trial_runner.h"
#include "core/sweep/loop/sweep_loop.h"
#include "core/sweep/proposals/candidate_strategies_and_user_plan_files.h"

namespace memtune::sweep {
namespace {

using result::TrialOutcome;

// True if the same trial may work later, once the disk has room or no other process kills it.
bool may_pass(TrialOutcome outcome) {
  return outcome == TrialOutcome::disk_full || outcome == TrialOutcome::host_oom || outcome == TrialOutcome::killed;
}

CandidateStrategiesAndUserPlanFiles candidates(const EngineSweepSettings& settings) {
  return {settings.strategies, settings.plans, settings.request.training, settings.fallback};
}

// Measures saves of the recommended trial. Returns false if a signal arrived.
bool measure_saves(StateSaveModeTrialRunner saves, const EngineSweepBackend& plans, SweepRecordAndReport& result) {
  for (const result::TrialResultRow& row : result.report.rows)
    for (SweepTrialEntry& trial : result.record.trials)
      if (row.recommended && row.measurement.strategy == trial.strategy && row.batch == trial.batch &&
          row.sequence == trial.sequence)
        return saves.run(trial, plans.request(trial));
  return true;
}

}  // namespace

bool may_reuse(TrialOutcome outcome, EarlierTrialReusePolicy reuse) {
  if (outcome == TrialOutcome::ok) return reuse != EarlierTrialReusePolicy::nothing;
  return reuse == EarlierTrialReusePolicy::finished && !may_pass(outcome);
}

std::optional<ModelInspectionResult> inspect_model(const EngineSweepSettings& settings, SweepListener& listener) {
  const process::InterruptScope interrupts;
  const CandidateStrategiesAndUserPlanFiles tried = candidates(settings);
  LockedRunDirectory open(settings.directory, files_of(settings));
  SweepJsonSettingsFactsAndTrials record;
  const TrialProposerFactory nothing;
  return EngineSweepBackend(settings, tried, listener, open.directory(), record, nothing).look();
}

SweepRecordAndReport run_sweep(const EngineSweepSettings& settings, SweepListener& listener,
                               const TrialProposerFactory& make_proposer) {
  const process::InterruptScope interrupts;
  const CandidateStrategiesAndUserPlanFiles tried = candidates(settings);
  LockedRunDirectory open(settings.directory, files_of(settings));
  SweepRecordAndReport result;
  EngineSweepBackend plans(settings, tried, listener, open.directory(), result.record, make_proposer);
  SweepLoop loop(settings, listener, open, plans, result.record);
  result.interrupted = !loop.run();
  if (settings.dry_run || result.record.trials.empty()) return result;
  result.report = make_report(open.directory(), result.record);
  if (result.interrupted || settings.save_modes.empty()) return result;
  result.interrupted =
      !measure_saves(StateSaveModeTrialRunner(settings, listener, open, loop.journal(), result.record), plans, result);
  result.report = make_report(open.directory(), result.record);
  return result;
}

}  // namespace memtune::sweep
