// Activation checkpointing at the granularity of values: makes a dropped value again from what is still there.
//
// Ops are rerun one by one, each at most once a step: what a rerun makes is held as long as a saved tensor or another
// recomputation to come needs it. Nested, ops of other blocks than backward is in are rerun in passing: of what they
// make only what crosses into another block is held on, and they are run again when backward is in their block.
//
// As whole blocks (other engines' habit) all ops of a block are rerun, in order, when the first of them is needed.
//
// A rerun happens under the forward's autocast state, random state and grad mode (some kernels depend on it), but
// without history, and leaves the module's buffers as they are.
#pragma once

#include <chrono>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/checkpoint/instance.h"
#include "core/device/stopwatch.h"
#include "core/device/torch/torch_device.h"
#include "core/program/parameter_source.h"

namespace memtune::checkpoint {

class Recompute {
 public:
  // `nested`: see config::Plan; `whole_blocks`: config::Habits, and not when nested.
  Recompute(device::Device& device, bool nested, bool whole_blocks = false)
      : device_(device::torch_device(device)),
        nested_(nested),
        whole_blocks_(whole_blocks && !nested),
        timer_(device) {}

  void begin_step() { of_block_.clear(); }
  // An op that may be run again, in the order of the forward.
  void recorded(const InstancePtr& instance) {
    if (whole_blocks_) of_block_[instance->block].push_back(instance);
  }

  // Who is told of what runs again, so that the parameters it reads are there; null: they all are.
  void set_parameters(program::ParameterSource* parameters) { parameters_ = parameters; }

  // Backward is in that block now.
  void enter_block(int block) { block_ = block; }

  // The value's bytes, made by running `instance` again. Throws Error when it does not make them as before.
  at::Storage make(Instance& instance, autograd::SavedValue& value);

  // The `save`-th tensor that autograd saved while `instance` ran.
  at::Tensor saved_by(Instance& instance, int save);

  void set_recorder(trace::Recorder* recorder) { recorder_ = recorder; }
  int64_t reruns() const { return reruns_; }
  int64_t made_bytes() const { return made_bytes_; }                 // of values that were wanted, in all
  std::chrono::nanoseconds host_time() const { return host_time_; }  // of the ops themselves, in all
  device::Stopwatch& timer() { return timer_; }                      // of the ops that were run again

 private:
  void run(Instance& instance, const autograd::SavedValue* wanted);
  void rerun(Instance& instance, const autograd::SavedValue* wanted);
  void rerun_block(int block);
  at::Storage passed(const autograd::SavedValue& value) const;
  program::Stack make_stack(const Instance& instance);
  c10::IValue make_argument(const RecordedArgument& argument, const TensorInput* inputs, bool written);
  at::Tensor make_input(const TensorInput& input, bool written);
  void hand_out(Instance& instance, const program::Stack& arguments, const program::Stack& results,
                const autograd::SavedValue* wanted);
  bool passes(const Instance& instance) const { return nested_ && instance.block != block_; }

  c10::Device device_;
  bool nested_, whole_blocks_;
  std::map<int, std::vector<InstancePtr>> of_block_;  // that were recorded and not run again yet
  int block_ = -1;
  std::map<int, std::unordered_map<const autograd::SavedValue*, at::Storage>> passed_;  // by block that is being passed
  device::Stopwatch timer_;
  trace::Recorder* recorder_ = nullptr;
  program::ParameterSource* parameters_ = nullptr;
  int64_t reruns_ = 0, made_bytes_ = 0;
  std::chrono::nanoseconds host_time_{0};
};

}  // namespace memtune::checkpoint
