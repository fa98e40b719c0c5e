// Asks a subject for trials, has them run, asks again with what was measured, until nothing new is proposed.
#pragma once

#include <vector>

#include "core/sweep/open_directory.h"
#include "core/sweep/round_robin.h"
#include "core/sweep/sweep.h"
#include "core/sweep/sweep_subject.h"

namespace memtune::sweep {

class Loop {
 public:
  // All outlive it. The record is the subject's too.
  Loop(const LoopSettings& settings, SweepListener& listener, OpenDirectory& open, SweepSubject& subject,
       SweepRecord& record);

  // False when a signal came: what was finished is in the record. Throws as run_sweep.
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

// That the directory is read and written through.
FileSystem& files_of(const LoopSettings& settings);

}  // namespace memtune::sweep
