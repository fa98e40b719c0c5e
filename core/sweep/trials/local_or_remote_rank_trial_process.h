// The process of one rank of a running trial, on this machine or another.
#pragma once

#include <chrono>

#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

class LocalOrRemoteRankTrialProcess {
 public:
  virtual ~LocalOrRemoteRankTrialProcess() = default;

  // Reads the process's messages for at most `timeout`. Returns false once it has ended.
  virtual bool poll_output(std::chrono::milliseconds timeout) = 0;
  // Ends it at once because another rank failed.
  virtual void end() = 0;
  // True if end() stopped it before it gave an answer.
  virtual bool stopped_by_other_rank() const = 0;
  virtual const TrialPhaseProgress& phase() const = 0;
  // Only once it has ended.
  virtual TrialAnswer answer() const = 0;
};

}  // namespace memtune::sweep
