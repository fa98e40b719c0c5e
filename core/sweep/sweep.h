// The loop: ask a subject for trials, run them in rounds, keep everything on disk as it comes. The first round of a
// trial checks what it computes and records the trace, later ones only measure. Of models the subject looks at the
// model at each setting and has a Proposer say which plans are tried; of commands it is sweep_commands.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan_file.h"
#include "core/sweep/proposer.h"
#include "core/sweep/run_directory.h"

namespace memtune::sweep {

// Which results of earlier runs in the same directory, of the very same trial, stand for a new one.
enum class Reuse { finished, worked, nothing };
// What has ended so need not run again.
bool stands(result::Outcome outcome, Reuse reuse);

// Of sweeps of every kind.
struct LoopSettings {
  std::string model;         // for people: "model.pt", "small (profile)", the command
  int64_t budget_bytes = 0;  // 0: the memory cap, if there is one
  result::Goal goal = result::Goal::throughput;
  std::filesystem::path directory;
  std::chrono::milliseconds limit{std::chrono::minutes(10)};  // a trial
  std::chrono::milliseconds time_limit{0};                    // all of this run of memtune; 0: none
  int rounds = 3;                                             // in which all trials take their turn; at least 1
  Reuse reuse = Reuse::finished;
  bool dry_run = false;            // list the trials only
  FileSystem* files = nullptr;     // that the directory is read and written through; nullptr: the real one
  std::vector<std::string> notes;  // for the listener, once nothing is left to be refused
};

struct SweepSettings : LoopSettings {
  config::TrialRequest request;  // model, inputs and training settings; the rest is filled in for each trial
  std::vector<std::string> strategies;
  std::vector<plan::PlanFile> plans;        // tried after the strategies, under their names
  std::vector<int64_t> batches, sequences;  // axes; empty: as the inputs say
  bool finds_batch = false;                 // batches come with proposals; `batches` has the first
  int64_t global_batch = 0;                 // samples a step, which batches divide and passes make up; 0: one batch
  std::vector<std::string> save_modes;      // ways to save that are measured under the recommended plan
  double mtbf_s = 0;                        // mean time between failures of the job; 0: not given
  int64_t keep_last = 0;                    // saved states that the training is to keep; 0: all
  Followers* followers = nullptr;           // the other ranks, where a launcher started them
};

// Told what happens while it happens. Every call returns soon.
class SweepListener {
 public:
  virtual ~SweepListener() = default;
  virtual void noted(const std::string& /*note*/) {}
  virtual void inspecting(const Phase&) {}
  // All trials so far, of which so many are here already, and the processes that are still to be run for the others;
  // whenever trials were proposed.
  virtual void planned(const std::vector<TrialSpec>& /*trials*/, size_t /*reused*/, size_t /*runs*/) {}
  // Of plans on paper: which of how many budgets is looked at, from 1 on.
  virtual void planning(size_t /*budget*/, size_t /*budgets*/) {}
  virtual void started(const TrialSpec&, int /*round, from 1 on*/) {}
  virtual void phase(const Phase&) {}
  virtual void ended(const result::Measurement& /*of all rounds so far*/) {}
  virtual void save_started(const std::string& /*mode*/, size_t /*so many are left, with it*/) {}
  virtual void save_ended(const result::SaveMeasurement&) {}
};

struct SweepResult {
  SweepRecord record;
  report::Report report;
  bool interrupted = false;  // a signal ended it early; what was finished is in the report
};

// What is known of the model, from an earlier sweep in the directory or by looking at it; nothing after a signal.
// Throws as run_sweep.
std::optional<ModelFacts> look_at_model(const SweepSettings& settings, SweepListener& listener);

// Throws UsageError for what the person can fix (all bad strategies at once, before any trial), IoError for the run
// directory, Error when the model cannot even be looked at. A trial that fails is a row, not an error.
SweepResult run_sweep(const SweepSettings& settings, SweepListener& listener,
                      const MakeProposer& make_proposer = propose_all);

}  // namespace memtune::sweep
