// Activation checkpointing at the granularity of values: makes a dropped value again from what is still there.
//
// Ops are rerun one by one, each at most once a step: what a rerun makes is held as long as a saved tensor or another
// recomputation to come needs it. Nested, ops of other blocks than backward is in are rerun in passing: of what they
// make only what crosses into another block is held on, and they are run again when backward is in their block.
//
// A rerun happens under the forward's autocast state and random state, in grad mode
// (some kernels depend on it) but without history, and leaves the module's buffers as they are.
#pragma once

#include <chrono>
#include <map>
#include <unordered_map>

#include "core/checkpoint/instance.h"
#include "core/device/stopwatch.h"
#include "core/device/torch/torch_device.h"

namespace memtune::checkpoint {

class Recompute {
 public:
  // `nested`: see config::Plan.
  Recompute(device::Device& device, bool nested)
      : device_(device::torch_device(device)), nested_(nested), timer_(device) {}

  // Backward is in that block now.
  void enter_block(int block) { block_ = block; }

  // The value's bytes, made by running `instance` again. Throws Error when it does not make them as before.
  at::Storage make(Instance& instance, value::Value& value);

  // The `save`-th tensor that autograd saved while `instance` ran.
  at::Tensor saved_by(Instance& instance, int save);

  // State that an op about to run starts from. Cheap: nothing is copied for ops that draw no random numbers.
  void remember_state(const program::Op& op, Instance& instance) const;

  void set_recorder(trace::Recorder* recorder) { recorder_ = recorder; }
  int64_t reruns() const { return reruns_; }
  std::chrono::nanoseconds host_time() const { return host_time_; }  // of the ops themselves, in all
  device::Stopwatch& timer() { return timer_; }                      // of the ops that were run again

 private:
  void run(Instance& instance, const value::Value* wanted);
  void rerun(Instance& instance, const value::Value* wanted);
  at::Storage passed(const value::Value& value) const;
  program::Stack make_stack(Instance& instance);
  c10::IValue make_argument(Argument& argument, bool written);
  at::Tensor make_input(TensorInput& input, bool written);
  void hand_out(Instance& instance, const program::Stack& arguments, const program::Stack& results,
                const value::Value* wanted);
  bool passes(const Instance& instance) const { return nested_ && instance.block != block_; }

  c10::Device device_;
  bool nested_;
  int block_ = -1;
  std::map<int, std::unordered_map<const value::Value*, at::Storage>> passed_;  // by block that is being passed
  device::Stopwatch timer_;
  trace::Recorder* recorder_ = nullptr;
  int64_t reruns_ = 0;
  std::chrono::nanoseconds host_time_{0};
};

// Running statistics that the op moves: arguments that its schema does not call written. Empty for other ops.
std::vector<at::Tensor> moved_statistics(const program::Op& op, const program::Stack& inputs);

// The tensors among `values`, lists flattened, in order; undefined ones included.
std::vector<at::Tensor> tensors_in(const program::Stack& values);

}  // namespace memtune::checkpoint
