// Runs the program op by op, with activations placed by the plan. This runner has hooks and engines, and implements all
// optional calls. A plan that keeps everything runs without hooks until it is traced.
#pragma once

#include <chrono>
#include <optional>
#include <unordered_set>

#include "core/engine/shard/sharded_parameters.h"
#include "core/engine/shard/single_process_host_offloaded_model_states.h"
#include "core/measure/trial/device_memory_by_owner_sampler.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/host_op_and_activation_trace_recorder.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/measure/trial/step_events_to_cost_recorder_adapter.h"
#include "core/model/program/embeddings.h"

namespace memtune::trial {

class InterpretedForwardBackwardRunner final : public ForwardBackwardRunner {
 public:
  // `ranks` of a model that is sharded over them; null: it is not sharded.
  explicit InterpretedForwardBackwardRunner(const plan::TrialRequest& request,
                                            std::unique_ptr<shard::Collectives> ranks = nullptr);

  device::Device& device() override { return session_.device(); }
  const NamedParameters& parameters() const override { return sharded_ ? sharded_->pieces() : session_.parameters(); }
  program::ModelParametersAndBuffers state() const override;
  optimizer::GlobalNormFunction join_norms() override {
    if (!sharded_) return {};
    return [this](const at::Tensor& here) { return sharded_->global_norm(here); };
  }
  std::unordered_set<const void*> embeddings() const override { return program::embedding_tables(session_.program()); }
  StepWork work() const override {
    const int passes = request_.training.accumulate;
    return {passes * session_.batch().samples, passes * session_.batch().tokens};
  }

  bool update_in_backward(optimizer::Optimizer& optimizer) override {
    if (states_) states_->update_with(optimizer, request_.training.accumulate);
    return states_.has_value();
  }
  void finish_updates() override;
  void make_states(optimizer::Optimizer& optimizer, const std::vector<size_t>& parameters) override;
  at::Tensor with_bytes(const at::Tensor& state) const override { return states_ ? states_->with_bytes(state) : state; }

  bool any_rank(bool here) override { return sharded_ ? sharded_->any_rank(here) : here; }
  std::vector<double> gather_from_ranks(const std::vector<double>& here) override;
  double untouched_loss() override { return session_.untouched_loss(executor()); }
  at::Tensor forward_backward() override;
  at::Tensor untouched_step() override { return session_.untouched_step(executor()); }

  void set_before_backward(std::function<void()> call) override { session_.set_before_backward(std::move(call)); }
  std::set<const void*> written_memory() override {
    // Sharded parameters need none: models that write into them are refused.
    return sharded_ || states_ ? std::set<const void*>() : session_.written_memory();
  }
  bool offloads_activations() const override { return executor_ && executor_->offloads_activations(); }
  int64_t host_bytes() const override { return executor_ ? executor_->tier().pool().reserved_bytes() : 0; }
  void set_host_budget(int64_t bytes) override {
    if (executor_) executor_->set_host_budget(bytes);
  }

  // If copies have to be scheduled, the executor learns from the second step (optimizer states exist by then). Another
  // step lets the allocator settle.
  int least_warm_up() const override { return offloads_activations() ? 3 : 0; }
  void begin_warm_up(int i) override;
  void end_warm_up(int i) override;

  void begin_measuring() override;
  void add_figures(int steps, result::TrialMeasurement& to) override;

  bool prepare_trace() override;
  StepPhaseObserver* start_trace(profiler::DeviceActivityProfiler& profiler,
                                 const optimizer::Optimizer& optimizer) override;
  void finish_trace(trace::Trace& trace, result::TrialMeasurement& to) override;

  StepPhaseObserver* start_costs() override;
  std::optional<plan::RecordedStepCosts> finish_costs() override;

  plan::RecordedStepCosts::States state_costs(const optimizer::Optimizer& optimizer) override;

  std::string where() const override;
  std::vector<Owner> largest_owners() override;

 private:
  shard::ReshardDtypeAndOffloadOptions shard_settings();
  void make_executor();
  step::ActivationPlanExecutor* executor() { return executor_ ? &*executor_ : nullptr; }

  const plan::TrialRequest& request_;
  LoadedModelForwardBackwardSession session_;
  std::unique_ptr<shard::Collectives> ranks_;
  std::optional<shard::ShardedParameters> sharded_;
  std::optional<shard::SingleProcessHostOffloadedModelStates> states_;  // of a plan that offloads them
  std::optional<step::ActivationPlanExecutor> executor_;
  std::optional<DeviceMemoryByOwnerSampler> owners_;  // both set while steps are traced
  std::optional<HostOpAndActivationTraceRecorder> step_trace_;
  std::optional<StepEventsToCostRecorderAdapter> cost_notes_;  // set while costs are recorded
  shard::ShardedParameters::Counters communicated_before_;
  shard::SingleProcessHostOffloadedModelStates::Counters states_before_;
  int64_t reruns_before_ = 0, recomputed_before_ = 0;
  std::chrono::nanoseconds host_time_before_{0}, stood_before_{0};
};

}  // namespace memtune::trial
