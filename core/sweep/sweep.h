// The loop: look at the model at each setting, run the trials that a Proposer asks for, keep everything on disk as it
// comes.
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

struct SweepSettings {
  std::string model;             // for people: "model.pt", "small (profile)"
  config::TrialRequest request;  // model, inputs and training settings; the rest is filled in for each trial
  std::vector<std::string> strategies;
  std::vector<plan::PlanFile> plans;        // tried after the strategies, under their names
  std::vector<int64_t> batches, sequences;  // axes; empty: as the inputs say
  int64_t budget_bytes = 0;                 // 0: the memory cap, if there is one
  result::Goal goal = result::Goal::throughput;
  std::filesystem::path directory;
  std::chrono::milliseconds limit{std::chrono::minutes(10)};  // a trial
  Reuse reuse = Reuse::finished;
  bool dry_run = false;            // list the trials only
  FileSystem* files = nullptr;     // that the directory is read and written through; nullptr: the real one
  std::vector<std::string> notes;  // for the listener, once nothing is left to be refused
};

// Told what happens while it happens. Every call returns soon.
class SweepListener {
 public:
  virtual ~SweepListener() = default;
  virtual void noted(const std::string& /*note*/) {}
  virtual void inspecting(const Phase&) {}
  // All trials so far, once before each round of them.
  virtual void planned(const std::vector<TrialSpec>& /*trials*/, size_t /*reused*/) {}
  virtual void started(const TrialSpec&) {}
  virtual void phase(const Phase&) {}
  virtual void ended(const result::Measurement&) {}
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
