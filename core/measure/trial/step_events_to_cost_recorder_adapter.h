// Reports to a cost recorder where the recorded steps begin and end, how long they gather parameters, and when
// parameters and optimizer states are copied.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "core/base/median.h"
#include "core/engine/shard/sharded_parameters.h"
#include "core/engine/shard/single_process_host_offloaded_model_states.h"
#include "core/engine/step/activation_plan_executor.h"
#include "core/engine/step/op_and_saved_tensor_cost_recorder.h"
#include "core/measure/trial/forward_backward_runner.h"

namespace memtune::trial {

class StepEventsToCostRecorderAdapter final : public StepPhaseObserver,
                                              shard::UnitGatherObserver,
                                              shard::OffloadedStateCopyAndUpdateObserver {
 public:
  // What it refers to outlives it. The executor is of that plan, which offloads no activations. `parameters`: those
  // whose gradients are counted, unless `sharded` has them. `sharded` null: the model is not sharded. `states` null:
  // none are offloaded; else the costs are those of a step that offloads none. `updates_in_backward`: such a step does.
  StepEventsToCostRecorderAdapter(device::Device& device, step::ActivationPlanExecutor& executor,
                                  const plan::Plan& plan, std::vector<at::Tensor> parameters,
                                  shard::ShardedParameters* sharded,
                                  shard::SingleProcessHostOffloadedModelStates* states, bool updates_in_backward)
      : recorder_(device, plan,
                  [parameters = std::move(parameters), sharded] {
                    return sharded ? sharded->device_gradients() : gradients_of(parameters);
                  }),
        executor_(executor),
        parameters_(sharded),
        states_(states),
        change_time_(updates_in_backward ? step::OpAndSavedTensorCostRecorder::ChangeTime::here
                                         : step::OpAndSavedTensorCostRecorder::ChangeTime::of_optimizer) {
    if (!parameters_ && !states_) recorder_.record_issue_times([this] { return executor_.host_time(); });
    executor_.set_cost_recorder(&recorder_);
    if (states_) {
      states_->set_watcher(this, !updates_in_backward);
      recorder_.add_moved([states] { return states->moved_bytes(); },
                          [states] { return states->moved_gradient_bytes(); });
    }
    if (!parameters_) return;
    parameters_->set_watcher(this);
    gather_ms_.resize(parameters_->unit_sizes().size());
  }
  ~StepEventsToCostRecorderAdapter() override {
    executor_.set_cost_recorder(nullptr);
    if (states_) states_->set_watcher(nullptr, false);
    if (parameters_) parameters_->set_watcher(nullptr);
  }
  StepEventsToCostRecorderAdapter(const StepEventsToCostRecorderAdapter&) = delete;
  StepEventsToCostRecorderAdapter& operator=(const StepEventsToCostRecorderAdapter&) = delete;

  void begin_forward() override {
    if (states_) states_->end_step();
    recorder_.begin_step();
  }
  void begin_optimizer() override { recorder_.end_backward(); }
  void end_optimizer() override { recorder_.end_optimizer(); }
  void end_step() override {
    recorder_.end_step();
    note_gathers();
  }
  void begin_timing() override {}

  std::optional<plan::RecordedStepCosts> costs() const {
    std::optional<plan::RecordedStepCosts> costs = recorder_.costs();
    if (costs && parameters_)
      for (const auto& [name, bytes] : parameters_->unit_sizes())
        costs->sharding.units.push_back({name, bytes, median(gather_ms_[costs->sharding.units.size()])});
    return costs;
  }

 private:
  static std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    return gradients;
  }

  void before_read(const std::vector<int>& units) override { recorder_.before_read(units); }
  void after_read() override { recorder_.after_read(); }
  void before_change() override { recorder_.begin_change(); }
  void after_change(bool updated) override {
    recorder_.end_change(updated ? change_time_ : step::OpAndSavedTensorCostRecorder::ChangeTime::none);
  }
  void gathered(int unit, std::vector<shard::PendingCollectivePtr> by) override {
    gathers_.emplace_back(unit, std::move(by));
  }

  // The rows of a unit are gathered in parallel, so the longest counts.
  void note_gathers() {
    for (const auto& [unit, by] : gathers_) {
      std::chrono::nanoseconds took{0};
      for (const auto& each : by) took = std::max(took, each->took());
      if (took.count() > 0) gather_ms_[unit].push_back(std::chrono::duration<double, std::milli>(took).count());
    }
    gathers_.clear();
  }

  step::OpAndSavedTensorCostRecorder recorder_;
  step::ActivationPlanExecutor& executor_;
  shard::ShardedParameters* parameters_;
  shard::SingleProcessHostOffloadedModelStates* states_;
  step::OpAndSavedTensorCostRecorder::ChangeTime change_time_;                     // of updates
  std::vector<std::pair<int, std::vector<shard::PendingCollectivePtr>>> gathers_;  // of this step
  std::vector<std::vector<double>> gather_ms_;                                     // by unit
};

}  // namespace memtune::trial
