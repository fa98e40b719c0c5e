// One rank's process of a trial that runs, on this machine or on another.
#pragma once

#include <chrono>

#include "core/sweep/trial_process.h"

namespace memtune::sweep {

class RankTrial {
 public:
  virtual ~RankTrial() = default;

  // Hears what it says, for at most `patience`; false: it has ended.
  virtual bool turn(std::chrono::milliseconds patience) = 0;
  // At once, because of others.
  virtual void end() = 0;
  virtual bool ended_by_others() const = 0;
  virtual const Phase& phase() const = 0;
  // Of one that has ended.
  virtual TrialAnswer answer() const = 0;
};

}  // namespace memtune::sweep
