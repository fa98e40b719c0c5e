// Interface to what a sweep tries: plans of memtune's own engine (EngineSweepBackend), or variants of a training
// command (CommandSweepBackend). The loop uses only this interface.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "core/answer/run/run_directory.h"

namespace memtune::sweep {

// A trial of a sweep and its results so far.
struct SweepTrialAndMeasurement {
  size_t setting = 0;  // trials of one setting are compared
  SweepTrialEntry spec;
  bool reused = false;  // its first round was measured by an earlier run
  result::TrialMeasurement measurement;

  std::string key(size_t round) const { return spec.key + (round == 0 ? "" : "-" + std::to_string(round + 1)); }
};

// Result of one process, or of all processes that a command started.
struct TrialMeasurementSavesAndNotes {
  result::TrialMeasurement measurement;
  std::vector<result::StateSaveModeMeasurement> saves = {};  // that the command made on its own
  std::vector<std::string> notes = {};
  std::string torch = {};  // PyTorch's version; "": unknown
};

class SweepTrialProposerAndRunner {
 public:
  virtual ~SweepTrialProposerAndRunner() = default;

  // Fills the record with what is known before any trial. Returns false if a signal arrived. Throws like run_sweep.
  virtual bool describe() = 0;
  // Device of the trials, "cpu" or "cuda:1", as far as it is known before one has run.
  virtual std::string device() const = 0;
  // Versions and machine of the process that measures.
  virtual trace::RunProvenance origin() const = 0;
  // Returns the trials to run next, in order; an empty list ends the sweep. The first trial of a setting is its
  // baseline. `tried`: all trials so far. The first call throws UsageError for errors of the user.
  virtual std::vector<SweepTrialAndMeasurement> next(std::span<const SweepTrialAndMeasurement> tried) = 0;
  // Notes for the user, after the first next() has accepted the settings.
  virtual std::vector<std::string> notes() const = 0;

  // True if an earlier measurement may be reused. The caller has checked its outcome.
  virtual bool reuse(const SweepTrialAndMeasurement& trial, const result::TrialMeasurement& measurement) = 0;
  // Called before a trial's first round. Its folder exists and has no measurement or trace of an earlier attempt.
  virtual void prepare(const SweepTrialAndMeasurement& trial) = 0;
  // Trial failures are returned, not thrown. Throws UsageError only if the very first trial is rejected (the others
  // would be too). `left`: time limit of the whole run; none: unlimited.
  virtual TrialMeasurementSavesAndNotes measure(const SweepTrialAndMeasurement& trial, bool first,
                                                std::optional<std::chrono::milliseconds> left) = 0;
  // Called after each added round, to evaluate all rounds so far.
  virtual void evaluate(SweepTrialAndMeasurement& trial) = 0;
};

}  // namespace memtune::sweep
