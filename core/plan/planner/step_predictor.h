// Step simulator: predicts memory and time of a step under any plan, from the costs that one trial recorded. It does
// what core/engine/step, core/engine/checkpoint and core/engine/offload do, without tensors.
//
// Memory: unmodelled memory stays as recorded, and values are where the plan places them at each moment. Blocks are
// those of PyTorch's allocator (SimulatedCachingAllocator), as the steps before left them. Gathered parameters are
// resident when the simulated step reads them, recomputed ops included. A plan that offloads is simulated like a real
// run, which learns from its first steps.
//
// Time: the measured step, plus recomputation, plus the time that compute waits for copies. An unknown bandwidth of
// PCIe or disk counts as infinite. With RecordedStepCosts::IssueTimes, the host issues the step: compute starts nothing
// before it was issued, and the step gets longer by what the last work ends later.
//
// Not modelled: memory of the allocator beyond blocks in use, blocks of tensors that live longer than a step, host time
// of recording ops for recomputation, copies of batch norm statistics, steps whose control flow depends on data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/planner/recompute_and_wait_times_of_simulated_step.h"
#include "core/plan/planner/recorded_step_simulation_tables.h"
#include "core/plan/planner/simulated_host_and_disk_tier.h"
#include "core/plan/planner/unmodelled_memory.h"
#include "core/plan/strategy/plan.h"

namespace memtune::planner {

struct StepPrediction {
  double step_ms = 0;
  int64_t peak_bytes = 0;  // peak allocated
  // What the device has to hold, which budgets limit: the peak, and RecordedStepCosts::device_overhead_bytes. A
  // prediction for a device of a given size has the segments that the allocator reserves there instead of the peak.
  int64_t required_bytes = 0;
  int64_t short_bytes = 0;  // by how much the step exceeds that device; 0: it fits, or no size was given
  int64_t lasting_short_bytes =
      0;                       // the same after the allocator released what is free, which expandable segments allow
  int64_t recomputed_ops = 0;  // per step, as in Measurement
  int64_t recomputed_bytes = 0;
  double recompute_ms = 0;
  int64_t out_bytes = 0, in_bytes = 0;                // per step
  double wait_ms = 0;                                 // compute waits for copies
  int64_t host_peak_bytes = 0;                        // peak in host memory; above its budget: there is no room
  int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // per step
  int64_t disk_peak_bytes = 0;                        // peak on disk
  int64_t gathered_bytes = 0;                         // per step, of sharded parameters
  size_t peak_entry = 0;  // of the peak allocated: a run of the forward, then a moment of backward, then after it
};

// No effect on an emulated device.
struct SimulatedDeviceSizeAndExpandableSegments {
  int64_t bytes = 0;  // 0: large enough for everything
  bool expandable_segments = false;
};

// Thread: any; calls may be concurrent.
class StepPredictor {
 public:
  // `costs`: of a step that kept everything (see costs_without_recompute), recorded from the program of `facts`; must
  // outlive the model.
  StepPredictor(const plan::ProgramFacts& facts, const plan::RecordedStepCosts& costs);

  // `tiers`: where the step may offload to. `log` (may be null): filled with the entries of the step where costs arise.
  StepPrediction predict(const plan::Plan& plan, const AllowedOffloadTiersAndHostBudget& tiers = {},
                         RecomputeAndWaitTimesOfSimulatedStep* log = nullptr,
                         const SimulatedDeviceSizeAndExpandableSegments& device = {}) const;

  // The recorded step in the form that the simulator reads.
  const RecordedStepSimulationTables& tables() const { return tables_; }
  const UnmodelledMemory& unmodelled() const { return unmodelled_; }

 private:
  const plan::RecordedStepCosts& costs_;
  const RecordedStepSimulationTables tables_;
  const UnmodelledMemory unmodelled_;
};

}  // namespace memtune::planner
