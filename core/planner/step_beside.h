// The recorded step's memory without the modelled values': what any plan has beside its own.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/step_costs.h"
#include "core/planner/step_tables.h"

namespace memtune::planner {

// Entry by entry, in bytes.
struct StepBeside {
  struct Entry {
    int64_t before_bytes = 0, peak_bytes = 0;
    int64_t gathered_bytes = 0;  // that are there in any case, of parameters; no part of the others
  };
  std::vector<Entry> runs, moments, reads;
  int64_t before_peak_bytes = 0, after_peak_bytes = 0;
  double gather_wait_ms = 0;  // of backward on paper, for gathers

  static StepBeside nothing(const config::StepCosts& costs);
};

// What was recorded less what the values of that plan held, which is played for it three times: then blocks lie as in
// the steps behind it.
StepBeside find_beside(const StepTables& tables, const config::StepCosts& costs);

}  // namespace memtune::planner
