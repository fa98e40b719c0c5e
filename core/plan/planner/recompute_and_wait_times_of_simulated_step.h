// Where in a simulated step its costs arise. Entries are the runs of the forward, then the moments of backward.
#pragma once

#include <cstddef>
#include <vector>

namespace memtune::planner {

struct RecomputeAndWaitTimesOfSimulatedStep {
  struct Entry {
    double rerun_ms = 0, wait_ms = 0;
  };
  std::vector<Entry> entries;
  size_t peak_entry = 0;  // past `entries`: after backward
};

}  // namespace memtune::planner
