// Where in the step what a plan costs comes about; entries are the runs of the forward, then the moments of the
// backward.
#pragma once

#include <cstddef>
#include <vector>

namespace memtune::planner {

struct StepLog {
  struct Entry {
    double rerun_ms = 0, wait_ms = 0;
  };
  std::vector<Entry> entries;
  size_t peak_entry = 0;  // past them: behind the backward
};

}  // namespace memtune::planner
