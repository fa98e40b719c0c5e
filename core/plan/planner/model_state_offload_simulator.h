// Simulated parameters, gradients and optimizer states of a plan that offloads them: which rows have memory, how long
// compute waits for their copies, and when each unit is updated. schedule::ModelStateOffloadScheduler decides, as in
// the engine.
//
// An op reads its block's unit from the block's first op on. Backward has made a unit's gradients when it goes on to
// another unit. The optimizer's time is divided by trained bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/planner/device_host_copy_simulator.h"
#include "core/plan/planner/simulated_compute_and_host_clock.h"
#include "core/plan/planner/simulated_device_memory.h"
#include "core/plan/schedule/model_state_offload_scheduler.h"

namespace memtune::planner {

// Parameters and optimizer states that the plan keeps in host memory, so that they are not on the device between steps.
int64_t offloaded_state_bytes(const plan::RecordedStepCosts& costs, const plan::Plan& plan);

class ModelStateOffloadSimulator final : schedule::ModelStateCopyAndUpdateBackend {
 public:
  // State that earlier steps left; empty for the first step.
  struct StepState {
    schedule::ModelStateOffloadScheduler::Learned learned;
    std::vector<bool> pending;                                               // by group
    std::array<std::vector<bool>, std::size(schedule::kStateRows)> storing;  // by row, then group: still on the device
  };

  // Does nothing if the plan offloads no states. All arguments but `before` must outlive it. `scale`: factor on
  // recorded times.
  ModelStateOffloadSimulator(const plan::RecordedStepCosts& costs, const plan::Plan& plan, double scale,
                             const StepState& before, SimulatedDeviceMemory& memory,
                             SimulatedComputeAndHostClock& clock, DeviceHostCopySimulator& copies);
  ModelStateOffloadSimulator(const ModelStateOffloadSimulator&) = delete;
  ModelStateOffloadSimulator& operator=(const ModelStateOffloadSimulator&) = delete;

  bool active() const { return !groups_.empty(); }
  void begin_forward();
  // `block`: of an op of the forward; RecordedStepCosts::StateUnit::kBefore, kBehind.
  void read(int block);
  void begin_backward();
  void read_in_backward(int block, size_t moment);
  void end_backward();

  StepState next_step_state() const;
  // By how much less is allocated than recorded: what is in host memory for good, and gradients that are no more.
  int64_t moved_bytes() const { return lasting_bytes_ + freed_gradient_bytes_; }
  double updated_share() const { return updated_share_; }  // of the optimizer's time, inside the step
  int64_t host_bytes() const { return bytes_.host; }
  int64_t in_bytes() const { return bytes_.in; }
  int64_t out_bytes() const { return bytes_.out; }

 private:
  struct Row {
    int64_t bytes = 0;
    bool offloaded = false, free_later = false;
    int block = SimulatedDeviceMemory::kNone;
    double loaded_ms = 0, stored_ms = 0;  // ends of copies; 0: none runs
  };
  struct Group {
    int unit = 0;
    int64_t trained_bytes = 0;
    bool made = false, has_gradients = false;
    std::array<Row, std::size(schedule::kStateRows)> rows;
  };

  void add_group(int unit, int64_t bytes, int64_t moment_bytes, bool trained, const plan::UnitStatePlacement& place);
  void take_over(int group, const StepState& before);
  void make_gradients(int unit, size_t moment);
  schedule::ParameterGatherScheduler::Units unit_of(int block) const;
  Row& row(int group, schedule::ModelStateKind row) { return groups_[group].rows[static_cast<size_t>(row)]; }

  bool offloads(int group) const override;
  bool has_gradients(int group) const override { return groups_[group].has_gradients; }
  void load(int group, schedule::ModelStateKind row) override;
  void wait(int group, schedule::ModelStateKind row) override;
  void store(int group, schedule::ModelStateKind row) override;
  void free(int group, schedule::ModelStateKind row) override;
  void settle(int group) override;
  void take_gradients(int group) override;
  void note_norms(int) override {}
  void begin_clipping() override {}
  void update(int group) override;

  const plan::RecordedStepCosts& costs_;
  const double scale_;
  SimulatedDeviceMemory& memory_;
  SimulatedComputeAndHostClock& clock_;
  DeviceHostCopySimulator& copies_;
  std::vector<Group> groups_;
  std::map<int, int> unit_of_block_;
  std::optional<schedule::ModelStateOffloadScheduler> schedule_;
  int64_t trained_bytes_ = 0, lasting_bytes_ = 0, freed_gradient_bytes_ = 0;
  struct {
    int64_t host = 0, in = 0, out = 0;  // in host memory; copied in a step
  } bytes_;
  double updated_share_ = 0;
  int unit_ = -1;  // that backward is in
};

}  // namespace memtune::planner
