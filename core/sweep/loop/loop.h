// Main loop of a sweep: asks the subject for trials, runs them and asks again with their results, until nothing new is
// proposed.
#pragma once

#include <vector>

#include "core/sweep/directory/open_directory.h"
#include "core/sweep/loop/round_robin.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/loop/sweep_subject.h"

namespace memtune::sweep {

class Loop {
 public:
  // All arguments outlive it. The subject writes to `record` too.
  Loop(const LoopSettings& settings, SweepListener& listener, OpenDirectory& open, SweepSubject& subject,
       SweepRecord& record);

  // Returns false if a signal arrived; the record then holds what was finished. Throws like run_sweep.
  bool run();

  Journal& journal() { return turns_.journal(); }

 private:
  bool run_proposals();
  void add(std::vector<TrialState> proposed);
  void tell_plan(size_t begin);
  void tell_origin();
  SweepRecord earlier_record() const;

  const LoopSettings& settings_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  SweepSubject& subject_;
  SweepRecord& record_;
  SweepRecord earlier_;
  RoundRobin turns_;
};

// The file system through which the run directory is accessed.
FileSystem& files_of(const LoopSettings& settings);

}  // namespace memtune::sweep
