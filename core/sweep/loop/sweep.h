// Entry points of a sweep: run trials in rounds and store every result at once. The first round of a trial checks its
// results and records the trace; later rounds only measure. For models, each setting is inspected and a Proposer
// chooses the plans. For commands see sweep_commands.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/answer/run/run_directory.h"
#include "core/plan/rules/hand_written_plan_file.h"
#include "core/sweep/proposals/trial_proposer.h"

namespace memtune::sweep {

class WorkerCoordinator;

// Which results of earlier runs in the directory are reused for the same trial: finished ones, successful ones, or
// none.
enum class EarlierTrialReusePolicy { finished, worked, nothing };
// True if a trial with this outcome need not run again.
bool may_reuse(result::TrialOutcome outcome, EarlierTrialReusePolicy reuse);

// Settings of all kinds of sweeps.
struct CommonSweepSettings {
  std::string model;         // for messages: "model.pt", "small (profile)", the command
  int64_t budget_bytes = 0;  // 0: the memory cap, if there is one
  result::RecommendationGoal goal = result::RecommendationGoal::throughput;
  std::filesystem::path directory;
  std::vector<std::filesystem::path> other_runs;              // whose measurements of the same trials are taken over
  std::chrono::milliseconds limit{std::chrono::minutes(10)};  // of a trial
  std::chrono::milliseconds time_limit{0};                    // of this whole run of memtune; 0: none
  int rounds = 3;                                             // each trial runs once in a round; at least 1
  EarlierTrialReusePolicy reuse = EarlierTrialReusePolicy::finished;
  bool dry_run = false;            // list the trials only
  FileSystem* files = nullptr;     // for the directory; nullptr: the real one
  std::vector<std::string> notes;  // for the listener, once the settings are accepted
};

struct EngineSweepSettings : CommonSweepSettings {
  plan::TrialRequest request;  // model, inputs and training settings; the rest is set for each trial
  std::vector<std::string> strategies;
  std::vector<std::string> fallback;             // Candidates::fallback
  std::string own_config, own_strategy;          // what the user's config has now; always tried; "": not known
  std::vector<plan::HandWrittenPlanFile> plans;  // tried after the strategies, under their names
  std::vector<int64_t> batches, sequences;       // axes; empty: as in the inputs
  bool finds_batch = false;                      // the proposer chooses batches; `batches` has the first
  int64_t global_batch = 0;              // samples per step, by gradient accumulation; batches divide it; 0: one batch
  std::vector<std::string> save_modes;   // measured under the recommended plan
  double mtbf_s = 0;                     // mean time between failures of the job; 0: not given
  int64_t keep_last = 0;                 // saved states that the training keeps; 0: all
  WorkerCoordinator* workers = nullptr;  // the other ranks, if a launcher started them
};

// Receives the events of a running sweep. Every call must return soon.
class SweepListener {
 public:
  virtual ~SweepListener() = default;
  virtual void noted(const std::string& /*note*/) {}
  virtual void inspecting(const TrialPhaseProgress&) {}
  // Called after each proposal: all trials so far, how many of them are reused, and how many processes are still to
  // run.
  virtual void planned(const std::vector<SweepTrialEntry>& /*trials*/, size_t /*reused*/, size_t /*runs*/) {}
  // Called while plans for a range of budgets are computed: number of the current budget, from 1 on, and how many there
  // are.
  virtual void planning(size_t /*budget*/, size_t /*budgets*/) {}
  virtual void started(const SweepTrialEntry&, int /*round, from 1 on*/) {}
  virtual void phase(const TrialPhaseProgress&) {}
  virtual void printed(std::string_view /*by a command, as it comes*/) {}
  virtual void ended(const result::TrialMeasurement& /*of all rounds so far*/) {}
  virtual void save_started(const std::string& /*mode*/, size_t /*remaining, with this one*/) {}
  virtual void save_ended(const result::StateSaveModeMeasurement&) {}
};

struct SweepRecordAndReport {
  SweepJsonSettingsFactsAndTrials record;
  report::Report report;
  bool interrupted = false;  // a signal ended it early; the report has what was finished
};

// Facts of the model, from an earlier sweep in the directory or by inspecting it. None after a signal. Throws like
// run_sweep.
std::optional<ModelInspectionResult> inspect_model(const EngineSweepSettings& settings, SweepListener& listener);

// Throws UsageError for errors of the user (all bad strategies at once, before any trial), IoError for the run
// directory, Error if the model cannot be inspected. A trial that fails is a row, not an exception.
SweepRecordAndReport run_sweep(const EngineSweepSettings& settings, SweepListener& listener,
                               const TrialProposerFactory& make_proposer = propose_all);

}  // namespace memtune::sweep
