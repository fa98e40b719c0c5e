// A runner with a state and no steps, to save and load states without a model that runs.
#pragma once

#include <stdexcept>
#include <utility>

#include "core/base/device/device.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/model/program/state.h"

namespace memtune::test {

class StateRunner final : public trial::ForwardBackwardRunner {
 public:
  StateRunner(program::ModelParametersAndBuffers state, device::Device& device)
      : state_(std::move(state)), device_(&device) {}

  device::Device& device() override { return *device_; }
  const trial::NamedParameters& parameters() const override { return state_.parameters; }
  program::ModelParametersAndBuffers state() const override { return state_; }
  StepWork work() const override { return {1, 0}; }
  double untouched_loss() override { throw std::logic_error("no steps"); }
  at::Tensor forward_backward() override { throw std::logic_error("no steps"); }
  at::Tensor untouched_step() override { throw std::logic_error("no steps"); }

 private:
  program::ModelParametersAndBuffers state_;
  device::Device* device_;
};

}  // namespace memtune::test
