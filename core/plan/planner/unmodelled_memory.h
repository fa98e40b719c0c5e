// Unmodelled memory of the recorded step: what is allocated besides the modelled values. Every plan has it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/planner/recorded_step_simulation_tables.h"

namespace memtune::planner {

// Bytes by entry of the step.
struct UnmodelledMemory {
  struct Entry {
    int64_t before_bytes = 0, peak_bytes = 0;
    int64_t gathered_bytes = 0;  // parameters gathered here under any plan; in no other field
  };
  std::vector<Entry> runs, moments, reads;
  int64_t before_peak_bytes = 0, after_peak_bytes = 0;
  double gather_wait_ms = 0;  // simulated wait of backward for gathers

  static UnmodelledMemory nothing(const plan::RecordedStepCosts& costs);
};

// Recorded bytes minus those that values held under the recorded plan. The step is simulated three times, so that
// blocks of the allocator are as in later steps.
UnmodelledMemory find_unmodelled_memory(const RecordedStepSimulationTables& tables,
                                        const plan::RecordedStepCosts& costs);

}  // namespace memtune::planner
