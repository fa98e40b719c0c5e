// The values of a step and their consumers. A value whose plan says so leaves the device with its first consumer.
// Thread: the training thread.
#pragma once

#include "core/engine/autograd/saved_storage.h"
#include "core/engine/checkpoint/recorded_op.h"
#include "core/engine/offload/activation_offload_engine.h"
#include "core/engine/step/learned_forward_op_memory_peaks.h"
#include "core/engine/step/step_position_and_recorders.h"
#include "core/engine/step/storage_to_activation_table.h"

namespace memtune::step {

class StepActivationAndConsumerRegistry {
 public:
  // All arguments must outlive this object.
  StepActivationAndConsumerRegistry(const StepPositionAndRecorders& step, offload::ActivationOffloadEngine& offload,
                                    LearnedForwardOpMemoryPeaks& memory, c10::Device device,
                                    const std::vector<at::Tensor>& parameters)
      : step_(step), offload_(offload), memory_(memory), table_(device, parameters) {}

  void begin_step() { table_.begin_step(); }
  void end_forward() { table_.end_forward(); }
  const StorageToActivationTable& table() const { return table_; }

  // The tensor is output `output` of op number `op`. `producer` recomputes it as its output `index`; null: the value
  // cannot be recomputed, and is kept where the plan would recompute it.
  autograd::SavedStoragePtr add(const at::Tensor& tensor, int op, int output, plan::TensorPlacement place,
                                const checkpoint::RecordedOpPtr& producer, int index);

  // Adds a consumer that needs the value after the forward. The first consumer keeps or offloads the value.
  autograd::SavedStorageConsumerReference use(autograd::SavedStoragePtr value,
                                              autograd::SavedStorageConsumerReference::ConsumerKind by);
  // Adds a recomputation as a consumer of the tensor's value. Returns an empty one for parameters.
  autograd::SavedStorageConsumerReference use_for_recomputation(const at::Tensor& tensor);

  // The running op overwrites the tensor, whose storage has another value from then on.
  void overwrite(const at::Tensor& tensor);
  void overwritten(StorageToActivationTable::Storage storage) { table_.overwritten(storage); }

 private:
  const StepPositionAndRecorders& step_;
  offload::ActivationOffloadEngine& offload_;
  LearnedForwardOpMemoryPeaks& memory_;
  StorageToActivationTable table_;
};

}  // namespace memtune::step
