// Activation checkpointing per activation: recomputes dropped values from the values that are still available.
//
// Ops are recomputed one by one, each at most once per step. A recomputed value is kept while a saved tensor or another
// pending recomputation needs it. With `nested`, ops outside of backward's current block are recomputed temporarily:
// only outputs that another block needs are kept. The rest is recomputed a second time when backward reaches that
// block.
//
// With `whole_blocks` (compatibility with other engines), the first request recomputes all recorded ops of the block,
// in order.
//
// An op is recomputed under the autocast state, random state and grad mode of the forward, because some kernels depend
// on grad mode. Its outputs keep no autograd history, and the module's buffers do not change.
#pragma once

#include <chrono>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/base/device/compute_stream_scope_time_accumulator.h"
#include "core/base/device/torch/torch_device.h"
#include "core/engine/checkpoint/recorded_op.h"
#include "core/model/program/op_and_phase_parameter_residency_hooks.h"

namespace memtune::checkpoint {

class RecomputeEngine {
 public:
  // `nested`: see plan::Plan. `whole_blocks`: see plan::ThirdPartyEngineEmulationFlags; ignored if nested.
  RecomputeEngine(device::Device& device, bool nested, bool whole_blocks = false)
      : device_(device::torch_device(device)),
        nested_(nested),
        whole_blocks_(whole_blocks && !nested),
        timer_(device) {}

  void begin_step() { of_block_.clear(); }
  // Records an op that may be recomputed. Call in forward order.
  void recorded(const RecordedOpPtr& instance) {
    if (whole_blocks_) of_block_[instance->block].push_back(instance);
  }

  // Makes recomputed ops gather the sharded parameters that they read. Null: all parameters are on the device.
  void set_parameters(program::OpAndPhaseParameterResidencyHooks* parameters) { parameters_ = parameters; }

  // Backward is now in this block.
  void enter_block(int block) { block_ = block; }

  // Recomputes `instance` and returns the bytes of `value`. Throws Error if the outputs differ from those of the
  // forward.
  at::Storage make(RecordedOp& instance, autograd::SavedStorage& value);

  // Returns the `save`-th tensor that autograd saved while `instance` ran. Throws Error if the recomputation saves
  // other tensors.
  at::Tensor saved_by(RecordedOp& instance, int save);

  void set_recorder(trace::ActivationEventRecorder* recorder) { recorder_ = recorder; }
  int64_t reruns() const { return reruns_; }
  int64_t recomputed_bytes() const { return recomputed_bytes_; }         // of values with a consumer; never reset
  std::chrono::nanoseconds host_time() const { return host_time_; }      // of the ops themselves; never reset
  device::ComputeStreamScopeTimeAccumulator& timer() { return timer_; }  // device time of the recomputed ops

 private:
  void run(RecordedOp& instance, const autograd::SavedStorage* wanted);
  void rerun(RecordedOp& instance, const autograd::SavedStorage* wanted);
  void rerun_block(int block);
  at::Storage passed(const autograd::SavedStorage& value) const;
  program::Stack make_stack(const RecordedOp& instance);
  c10::IValue make_argument(const RecordedOpArgument& argument, const RecordedOpInput* inputs, bool written);
  at::Tensor make_input(const RecordedOpInput& input, bool written);
  void hold_outputs(RecordedOp& instance, const program::Stack& arguments, const program::Stack& results,
                    const autograd::SavedStorage* wanted);
  bool passes(const RecordedOp& instance) const { return nested_ && instance.block != block_; }

  c10::Device device_;
  bool nested_, whole_blocks_;
  std::map<int, std::vector<RecordedOpPtr>> of_block_;  // recorded and not yet recomputed, by block
  int block_ = -1;
  // temporary values, by block that is being recomputed
  std::map<int, std::unordered_map<const autograd::SavedStorage*, at::Storage>> passed_;
  device::ComputeStreamScopeTimeAccumulator timer_;
  trace::ActivationEventRecorder* recorder_ = nullptr;
  program::OpAndPhaseParameterResidencyHooks* parameters_ = nullptr;
  int64_t reruns_ = 0, recomputed_bytes_ = 0;
  std::chrono::nanoseconds host_time_{0};
};

}  // namespace memtune::checkpoint
