#include "core/engine/step/step_activation_and_consumer_registry.h"

#include "core/engine/step/op_and_saved_tensor_cost_recorder.h"

namespace memtune::step {

using autograd::SavedStorage;
using autograd::SavedStorageConsumerReference;
using autograd::SavedStoragePtr;
using plan::TensorPlacement;

SavedStoragePtr StepActivationAndConsumerRegistry::add(const at::Tensor& tensor, int op, int output,
                                                       TensorPlacement place, const checkpoint::RecordedOpPtr& producer,
                                                       int index) {
  const SavedStorage::Origin origin{op, output, step_.block};
  SavedStoragePtr value;
  if (place == TensorPlacement::recompute && producer) {
    value = std::make_shared<SavedStorage>(tensor.storage(), origin, producer);
    producer->outputs.push_back({value, index, tensor.dtype(), tensor.numel()});
  } else {
    value = std::make_shared<SavedStorage>(tensor.storage(), origin,
                                           place == TensorPlacement::recompute ? TensorPlacement::keep : place);
  }
  table_.add(StorageToActivationTable::storage_of(tensor), value);
  if (step_.costs) step_.costs->made(value, tensor.storage());
  return value;
}

SavedStorageConsumerReference StepActivationAndConsumerRegistry::use(SavedStoragePtr value,
                                                                     SavedStorageConsumerReference::ConsumerKind by) {
  SavedStorageConsumerReference use(std::move(value), by);
  use->add_consumer_block(step_.block);
  if (use->state() != SavedStorage::State::unretained) return use;
  if (use->place() == TensorPlacement::keep) {
    use->hold(use->live_storage());
    return use;
  }
  if (by == SavedStorageConsumerReference::ConsumerKind::rerun) offload_.count_checkpoint_input();
  memory_.before_leaving();
  offload_.start_offload(*use, step_.running.op().id);
  memory_.after_leaving();
  return use;
}

SavedStorageConsumerReference StepActivationAndConsumerRegistry::use_for_recomputation(const at::Tensor& tensor) {
  if (!table_.covers(tensor)) return {};
  return use(table_.find_or_add(tensor), SavedStorageConsumerReference::ConsumerKind::rerun);
}

void StepActivationAndConsumerRegistry::overwrite(const at::Tensor& tensor) {
  if (!table_.covers(tensor)) return;
  const auto storage = StorageToActivationTable::storage_of(tensor);
  if (const SavedStoragePtr value = table_.find(storage)) value->before_overwrite();
  table_.overwritten(storage);
}

}  // namespace memtune::step
