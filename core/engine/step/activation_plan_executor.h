// Runs a plan: observes every op of the forward and every tensor that autograd saves, and keeps, recomputes or offloads
// each value.
//
// Runs one forward and backward at a time, on one thread:
//
//   executor.begin_step();
//   { autograd::SavedTensorHooksScope hooks(&executor); loss = interpreter.run(inputs, &executor); }
//   executor.end_forward();
//   autograd::backward(loss);
#pragma once

#include <chrono>

#include "core/engine/checkpoint/op_recorder.h"
#include "core/engine/checkpoint/recompute_engine.h"
#include "core/engine/offload/activation_offload_engine.h"
#include "core/engine/step/learned_forward_op_memory_peaks.h"
#include "core/engine/step/op_and_saved_tensor_cost_recorder.h"
#include "core/engine/step/op_plan.h"
#include "core/engine/step/saved_tensor_handle.h"
#include "core/engine/step/saved_tensor_packing_decider.h"
#include "core/engine/step/step_activation_and_consumer_registry.h"
#include "core/engine/step/step_position_and_recorders.h"
#include "core/engine/tier/disk_spilling_activation_host_tier.h"
#include "core/model/program/interpreter.h"

namespace memtune::step {

// Memory tiers beyond the device.
struct HostBudgetAndScratchStore {
  int64_t host_budget_bytes = 0;                   // 0: no limit
  std::unique_ptr<disk::ScratchBlockStore> store;  // null: no disk
};

class ActivationPlanExecutor final : public program::OpObserver,
                                     public autograd::SavedTensorPacker,
                                     public SavedTensorHandle::Unpacker {
 public:
  // All arguments must outlive the executor. Throws UsageError if the plan names an op that the program does not have.
  ActivationPlanExecutor(const program::Program& program, const plan::ProgramFacts& facts, const plan::Plan& plan,
                         device::Device& device, HostBudgetAndScratchStore tiers = {});

  void begin_step();
  void end_forward();

  // Call around one whole step, whose peak is then known; it resets the device's peak. In later steps, sources of
  // copies may stay on the device as long as memory is below that peak.
  void begin_learning();
  void end_learning();
  bool offloads_activations() const { return plan_.offloads_activations(); }

  // From now on, measures the time of recomputation and of waits for copies.
  void enable_timers();

  void before(const program::Op& op, const program::Stack& inputs) override;
  void after(const program::Op& op, const program::Stack& outputs) override;
  std::unique_ptr<autograd::PackedSavedTensor> pack(const at::Tensor& tensor) override;

  // Limit of host memory from now on, in bytes; 0: no limit. Memory in use is not returned.
  void set_host_budget(int64_t bytes) { tier_.set_budget(bytes); }

  const StorageToActivationTable& values() const { return values_.table(); }
  const offload::ActivationOffloadEngine& offload() const { return offload_; }
  const tier::DiskSpillingActivationHostTier& tier() const { return tier_; }
  int64_t reruns() const { return recompute_.reruns(); }
  int64_t recomputed_bytes() const { return recompute_.recomputed_bytes(); }
  double rerun_ms() { return recompute_.timer().ms(); }  // of the last step; call when the device is idle
  // Host time of the engines in total, without the recomputed ops themselves.
  std::chrono::nanoseconds host_time() const { return host_time_ - recompute_.host_time(); }
  double copy_stall_ms() { return offload_.waits().ms(); }

  // See RecomputeEngine. Views of sharded parameters are then never offloaded.
  void set_parameters(program::OpAndPhaseParameterResidencyHooks* parameters) {
    recompute_.set_parameters(parameters);
    if (parameters) saves_.keep_parameter_views();
  }

  // Traces saves, uses, copies and recomputations; null: no trace.
  void set_recorder(trace::ActivationEventRecorder* recorder);
  // Records the costs of steps, under a plan that offloads nothing; null: no recording.
  void set_cost_recorder(OpAndSavedTensorCostRecorder* recorder) { step_.costs = recorder; }
  // Records disk reads and writes between these two calls.
  void start_recording() { tier_.start_recording(); }
  std::vector<tier::DiskSpillingActivationHostTier::Io> stop_recording() { return tier_.stop_recording(); }
  // null: everything is kept
  const plan::OneOpActivationPlacements* placement(int op) const { return ops_[op].placement; }
  // True if a tensor saved from this value was offloaded on its own (OneOpActivationPlacements::saves) while tracing.
  bool offloaded_save(const trace::ActivationOpOutputKey& key) const { return saves_.offloaded(key); }
  std::vector<DeviceMemoryHeldByOpKind> largest_holders(size_t most) const {
    return step::largest_holders(values(), facts_, most);
  }

 private:
  at::Tensor unpack(SavedTensorHandle& saved) override;
  at::Tensor bytes_of(const SavedTensorHandle& saved);
  void release_began(const SavedTensorHandle& saved) noexcept override;
  void release_ended() noexcept override;

  void enter(const OpPlan& op);
  void record(const program::Op& op, const program::Stack& inputs);
  void replace_written(const OpPlan& plan);
  void add_outputs(const OpPlan& plan, const program::Stack& outputs);

  const plan::ProgramFacts& facts_;
  const plan::Plan& plan_;
  c10::Device device_;
  std::vector<OpPlan> ops_;
  LearnedForwardOpMemoryPeaks memory_;
  tier::DiskSpillingActivationHostTier tier_;
  offload::ActivationOffloadEngine offload_;
  checkpoint::RecomputeEngine recompute_;
  checkpoint::OpRecorder recorder_;
  StepPositionAndRecorders step_;
  StepActivationAndConsumerRegistry values_;
  SavedTensorPackingDecider saves_;
  std::chrono::nanoseconds host_time_{0};
};

}  // namespace memtune::step
