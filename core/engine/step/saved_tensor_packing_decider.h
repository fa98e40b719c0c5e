// Decides for each tensor that autograd saves what its handle holds: the tensor itself, a value of the step, a copy of
// its own, or the running op's private save. A tensor that the running op may still write is decided when the op ends.
// Thread: the training thread.
#pragma once

#include <set>
#include <utility>

#include "core/engine/checkpoint/op_recorder.h"
#include "core/engine/step/op_plan.h"
#include "core/engine/step/saved_tensor_handle.h"
#include "core/engine/step/saved_tensor_offload_selector_and_compactor.h"
#include "core/engine/step/step_activation_and_consumer_registry.h"

namespace memtune::step {

class SavedTensorPackingDecider {
 public:
  // All arguments but the last must outlive this object. `ops`: by op number.
  SavedTensorPackingDecider(StepPositionAndRecorders& step, const plan::Plan& plan, const std::vector<OpPlan>& ops,
                            StepActivationAndConsumerRegistry& values, offload::ActivationOffloadEngine& offload,
                            const checkpoint::OpRecorder& recorder, SavedTensorOffloadSelectorAndCompactor copies)
      : step_(step),
        plan_(plan),
        ops_(ops),
        values_(values),
        offload_(offload),
        recorder_(recorder),
        copies_(std::move(copies)) {}

  void begin_step() { copies_.begin_step(); }
  void begin_block() { copies_.begin_block(); }
  // See SavedTensorOffloadSelectorAndCompactor.
  void keep_parameter_views() { copies_.keep_parameter_views(); }

  // Autograd saves the tensor. Without a running op the handle keeps it.
  void save(SavedTensorHandle& saved, const at::Tensor& tensor);
  // The running op has returned: decides what was left open.
  void end_op();

  // True if a tensor saved from this value was offloaded on its own (OneOpActivationPlacements::saves) while tracing.
  bool offloaded(const trace::ActivationOpOutputKey& key) const { return offloaded_.contains({key.op, key.output}); }

 private:
  void attach(SavedTensorHandle& saved, autograd::SavedStoragePtr value);
  bool offloads_saves() const;
  bool may_be_written(const at::Tensor& tensor) const;
  void offload(SavedTensorHandle& saved, const at::Tensor& tensor);
  void resolve(const RunningOpStoragesAndPendingSaves::Waiting& waiting);
  void resolve_private(const RunningOpStoragesAndPendingSaves::Waiting& waiting);
  void record_private_cost(const RunningOpStoragesAndPendingSaves::Waiting& waiting, const at::Tensor& tensor);

  StepPositionAndRecorders& step_;
  const plan::Plan& plan_;
  const std::vector<OpPlan>& ops_;
  StepActivationAndConsumerRegistry& values_;
  offload::ActivationOffloadEngine& offload_;
  const checkpoint::OpRecorder& recorder_;
  SavedTensorOffloadSelectorAndCompactor copies_;
  std::set<std::pair<int, int>> offloaded_;  // op and output of values
};

}  // namespace memtune::step
