// Simulated gathers of a sharded step: which units have memory, and how long compute waits for them.
//
// Gathers run one after another, overlapped with compute, and take as long as in the recorded step. The forward is the
// same under every plan, so its waits stay as recorded. Reductions stay as recorded too.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/planner/simulated_compute_and_host_clock.h"
#include "core/plan/planner/simulated_device_memory.h"
#include "core/plan/schedule/parameter_gather_scheduler.h"

namespace memtune::planner {

class ParameterGatherSimulator final : schedule::ParameterGatherBackend {
 public:
  // State that earlier steps left; empty for the first step.
  struct StepState {
    schedule::ParameterGatherScheduler::LearnedOrder learned;
    std::vector<bool> resident;  // by unit: has memory
  };

  // Does nothing if the costs are not sharded. All arguments but `before` must outlive it. `scale`: factor on recorded
  // times.
  ParameterGatherSimulator(const plan::RecordedStepCosts& costs, double scale, const StepState& before,
                           SimulatedDeviceMemory& memory, SimulatedComputeAndHostClock& clock);
  ParameterGatherSimulator(const ParameterGatherSimulator&) = delete;
  ParameterGatherSimulator& operator=(const ParameterGatherSimulator&) = delete;

  void begin_forward();
  void read(int run) { schedule_.read(costs_.runs[run].units); }
  void begin_backward();
  void read_by_node(const std::vector<int>& units);
  void read_again(int run);
  void end_backward() { schedule_.end_backward(); }

  StepState next_step_state() const;
  double waited_ms() const { return waited_ms_; }  // of compute, in backward
  double waited_in_reruns_ms() const { return waited_in_reruns_ms_; }
  int64_t gathered_bytes() const { return gathered_bytes_; }
  // Bytes gathered now that every plan would also have gathered now.
  int64_t needed_bytes() const;

 private:
  void gather(int unit) override;
  void wait(int unit) override;
  void free(int unit) override;

  const plan::RecordedStepCosts& costs_;
  const double scale_;
  const bool frees_;
  SimulatedDeviceMemory& memory_;
  SimulatedComputeAndHostClock& clock_;
  std::vector<int> block_of_;  // memory block by unit; kNone: none
  std::vector<double> done_ms_;
  std::vector<int> read_by_node_;
  bool in_backward_ = false;
  double link_busy_until_ms_ = 0;  // end of the last gather
  double waited_ms_ = 0, waited_in_reruns_ms_ = 0;
  int64_t gathered_bytes_ = 0;
  schedule::ParameterGatherScheduler schedule_;
};

}  // namespace memtune::planner
