// Tells a recorder of costs where the steps that it records begin and end.
#pragma once

#include "core/step/cost_recorder.h"
#include "core/step/executor.h"
#include "core/trial/runner.h"

namespace memtune::trial {

class CostNotes final : public StepNotes {
 public:
  // The executor, of that plan, which moves nothing, outlives it.
  CostNotes(device::Device& device, step::Executor& executor, const config::Plan& plan)
      : recorder_(device, plan), executor_(executor) {
    executor_.set_cost_recorder(&recorder_);
  }
  ~CostNotes() override { executor_.set_cost_recorder(nullptr); }
  CostNotes(const CostNotes&) = delete;
  CostNotes& operator=(const CostNotes&) = delete;

  void begin_forward() override { recorder_.begin_step(); }
  void begin_optimizer() override { recorder_.end_backward(); }
  void end_step() override { recorder_.end_step(); }
  void begin_times() override {}

  std::optional<config::StepCosts> costs() const { return recorder_.costs(); }

 private:
  step::CostRecorder recorder_;
  step::Executor& executor_;
};

}  // namespace memtune::trial
