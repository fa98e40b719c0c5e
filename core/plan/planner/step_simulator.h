// Simulates one pass of the recorded step under a plan: every run of its forward, every moment of its backward.
#pragma once

#include <algorithm>

#include "core/plan/planner/device_host_copy_simulator.h"
#include "core/plan/planner/model_state_offload_simulator.h"
#include "core/plan/planner/parameter_gather_simulator.h"
#include "core/plan/planner/recompute_and_wait_times_of_simulated_step.h"
#include "core/plan/planner/saved_activation_simulator.h"
#include "core/plan/planner/simulated_device_memory.h"
#include "core/plan/planner/simulated_host_and_disk_tier.h"
#include "core/plan/planner/unmodelled_memory.h"

namespace memtune::planner {

class StepSimulator {
 public:
  // State that earlier steps left; empty for the first step.
  struct StepState {
    int64_t largest_bytes = 0;  // of the largest transfer
    int64_t put_bytes = 0;      // put into host memory by the last step
    ParameterGatherSimulator::StepState gathers = {};
    ModelStateOffloadSimulator::StepState states = {};
  };

  // All arguments but `tiers` and `before` must outlive it. `schedule`: learning, or learned. `cache`: as earlier steps
  // left it.
  StepSimulator(const RecordedStepSimulationTables& tables, const plan::RecordedStepCosts& costs,
                const UnmodelledMemory& unmodelled, const plan::Plan& plan,
                schedule::LearnedMemoryHeadroomTimeline& schedule, SimulatedCachingAllocator& cache,
                const AllowedOffloadTiersAndHostBudget& tiers, const StepState& before);
  StepSimulator(const RecordedStepSimulationTables& tables, const plan::RecordedStepCosts& costs,
                const UnmodelledMemory& unmodelled, const plan::Plan& plan,
                schedule::LearnedMemoryHeadroomTimeline& schedule, SimulatedCachingAllocator& cache)
      : StepSimulator(tables, costs, unmodelled, plan, schedule, cache, {}, {}) {}

  // `log` is filled by play(); null: no log.
  void keep_log(RecomputeAndWaitTimesOfSimulatedStep* log) { log_ = log; }
  void simulate_step();
  void forward();
  const SimulatedDeviceMemory& memory() const { return memory_; }
  const SimulatedComputeAndHostClock& clock() const { return clock_; }
  const SavedActivationSimulator& values() const { return values_; }
  const DeviceHostCopySimulator& copies() const { return copies_; }
  const SimulatedHostAndDiskTier& tier() const { return tier_; }
  const ParameterGatherSimulator& gathers() const { return gathers_; }
  const ModelStateOffloadSimulator& states() const { return states_; }
  StepState next_step_state() const {
    return {copies_.schedule().largest_bytes(), tier_.counters().put_bytes, gathers_.next_step_state(),
            states_.next_step_state()};
  }
  double end_ms() const { return end_ms_; }  // with the optimizer; only with RecordedStepCosts::IssueTimes
  int64_t forward_peak() const { return forward_peak_; }
  // Bytes that the values held at each entry. A moment has two numbers: before it and after it (as peak_bytes).
  const UnmodelledMemory& held() const { return held_; }
  // Where the peak was first reached: a run of the forward, then a moment of backward, then after backward.
  size_t peak_entry() const { return peak_entry_; }

 private:
  void backward();
  void read_units(size_t& next, size_t moment);
  void update_peak(const UnmodelledMemory::Entry& unmodelled);
  void note(size_t entry);
  int64_t without_moved(int64_t unmodelled) const { return std::max<int64_t>(0, unmodelled - states_.moved_bytes()); }

  const plan::RecordedStepCosts& costs_;
  const UnmodelledMemory& unmodelled_;
  const RecordedStepSimulationTables& tables_;
  const double scale_;
  SimulatedDeviceMemory memory_;
  SimulatedComputeAndHostClock clock_;
  SimulatedHostAndDiskTier tier_;
  DeviceHostCopySimulator copies_;
  ParameterGatherSimulator gathers_;
  ModelStateOffloadSimulator states_;
  SavedActivationSimulator values_;
  UnmodelledMemory held_;
  int64_t forward_peak_ = 0;
  double end_ms_ = 0;
  RecomputeAndWaitTimesOfSimulatedStep* log_ = nullptr;
  double noted_rerun_ms_ = 0, noted_wait_ms_ = 0;
  int64_t noted_peak_bytes_ = 0;
  size_t peak_entry_ = 0;
};

}  // namespace memtune::planner
