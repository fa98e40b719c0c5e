#include "core/engine/step/step_activation_registry.h"

#include "core/engine/step/step_cost_recorder.h"

namespace memtune::step {

using autograd::SavedStorage;
using autograd::SavedStorageConsumerRef;
using autograd::SavedStoragePtr;
using plan::TensorPlacement;

SavedStoragePtr StepActivationRegistry::add(const at::Tensor& tensor, int op, int output, TensorPlacement place,
                                            const checkpoint::RecordedOpPtr& producer, int index) {
  const SavedStorage::Origin origin{op, output, step_.block};
  SavedStoragePtr value;
  if (place == TensorPlacement::recompute && producer) {
    value = std::make_shared<SavedStorage>(tensor.storage(), origin, producer);
    producer->outputs.push_back({value, index, tensor.dtype(), tensor.numel()});
  } else {
    value = std::make_shared<SavedStorage>(tensor.storage(), origin,
                                           place == TensorPlacement::recompute ? TensorPlacement::keep : place);
  }
  table_.add(SavedStorageTable::storage_of(tensor), value);
  if (step_.costs) step_.costs->made(value, tensor.storage());
  return value;
}

SavedStorageConsumerRef StepActivationRegistry::use(SavedStoragePtr value, SavedStorageConsumerRef::ConsumerKind by) {
  SavedStorageConsumerRef use(std::move(value), by);
  use->add_consumer_block(step_.block);
  if (use->state() != SavedStorage::State::unretained) return use;
  if (use->place() == TensorPlacement::keep) {
    use->hold(use->live_storage());
    return use;
  }
  if (by == SavedStorageConsumerRef::ConsumerKind::rerun) offload_.count_checkpoint_input();
  memory_.before_leaving();
  offload_.start_offload(*use, step_.running.op().id);
  memory_.after_leaving();
  return use;
}

SavedStorageConsumerRef StepActivationRegistry::use_for_recomputation(const at::Tensor& tensor) {
  if (!table_.covers(tensor)) return {};
  return use(table_.find_or_add(tensor), SavedStorageConsumerRef::ConsumerKind::rerun);
}

void StepActivationRegistry::overwrite(const at::Tensor& tensor) {
  if (!table_.covers(tensor)) return;
  const auto storage = SavedStorageTable::storage_of(tensor);
  if (const SavedStoragePtr value = table_.find(storage)) value->before_overwrite();
  table_.overwritten(storage);
}

}  // namespace memtune::step
