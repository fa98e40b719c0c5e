// What a sweep is of: trials of memtune's own under plans, or variants of a training command. The loop asks which
// trials come next and has their rounds measured, and knows no more of them.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "core/sweep/run_directory.h"

namespace memtune::sweep {

// A trial of a sweep, and what is known of it so far.
struct TrialState {
  size_t setting = 0;  // trials of one are compared
  TrialSpec spec;
  bool reused = false;  // its first round is here
  result::Measurement measurement;

  std::string key(size_t round) const { return spec.key + (round == 0 ? "" : "-" + std::to_string(round + 1)); }
};

// What one process, or all that a command started, gave.
struct MeasuredRound {
  result::Measurement measurement;
  std::vector<result::SaveMeasurement> saves = {};  // that it made by itself
  std::vector<std::string> notes = {};
  std::string torch = {};  // version that it ran with; "": not told
};

class SweepSubject {
 public:
  virtual ~SweepSubject() = default;

  // What is known before any trial, into the record; false when a signal came. Throws as run_sweep.
  virtual bool describe() = 0;
  // "cpu", "cuda:1": where trials run, as far as it is known before one has.
  virtual std::string device() const = 0;
  // Of whoever measures.
  virtual trace::Origin origin() const = 0;
  // The trials to run next, in order, the first of a setting the one that its others are compared with; none: the sweep
  // is done. `tried` are all so far. UsageError in the first call for what the person can fix.
  virtual std::vector<TrialState> next(std::span<const TrialState> tried) = 0;
  // For people, once nothing is left to be refused.
  virtual std::vector<std::string> notes() const = 0;

  // Whether what an earlier run measured may stand for the trial, whose outcome lets it.
  virtual bool reuse(const TrialState& trial, const result::Measurement& measurement) = 0;
  // Before a trial's first round, into its folder, which is there and has nothing of an earlier try.
  virtual void prepare(const TrialState& trial) = 0;
  // Nothing that the trial does throws, but UsageError when the first of all is refused: so would be the others.
  virtual MeasuredRound measure(const TrialState& trial, bool first, std::chrono::milliseconds limit) = 0;
  // What all rounds so far tell, once another was added.
  virtual void judge(TrialState& trial) = 0;
};

}  // namespace memtune::sweep
