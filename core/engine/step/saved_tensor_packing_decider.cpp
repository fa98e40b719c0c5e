#include "core/engine/step/saved_tensor_packing_decider.h"

#include "core/engine/step/op_and_saved_tensor_cost_recorder.h"

namespace memtune::step {

using autograd::SavedStorage;
using autograd::SavedStorageConsumerReference;
using autograd::SavedStoragePtr;
using checkpoint::RecordedOpPtr;
using plan::TensorPlacement;
using trace::ActivationOpOutputKey;

void SavedTensorPackingDecider::save(SavedTensorHandle& saved, const at::Tensor& tensor) {
  RunningOpStoragesAndPendingSaves& running = step_.running;
  if (!running) return;
  if (offloads_saves()) {
    if (may_be_written(tensor))
      running.wait_for_end(saved, tensor);
    else
      offload(saved, tensor);
    return;
  }
  if (!values_.table().covers(tensor)) return;
  const auto storage = StorageToActivationTable::storage_of(tensor);
  const bool written = running.writes(storage) != nullptr;
  SavedStoragePtr value = written ? nullptr : values_.table().find(storage);
  if (value)
    attach(saved, std::move(value));
  else if (written || !running.reads(storage))
    running.wait_for_end(saved, tensor);
}

void SavedTensorPackingDecider::end_op() {
  for (const auto& waiting : step_.running.take_waiting()) resolve(waiting);
}

void SavedTensorPackingDecider::attach(SavedTensorHandle& saved, SavedStoragePtr value) {
  if (step_.costs) step_.costs->saved(saved, *value);
  saved.attach(values_.use(std::move(value), SavedStorageConsumerReference::ConsumerKind::backward));
  if (step_.trace) step_.trace->saved(saved.key());
}

bool SavedTensorPackingDecider::offloads_saves() const {
  return !step_.running.instance && ops_[step_.running.op().id].offloads_saves();
}

// True if the running op may still write the tensor: it is not an input, e.g. the noise of rrelu. Later saves of the op
// wait too, so that all are offloaded in order.
bool SavedTensorPackingDecider::may_be_written(const at::Tensor& tensor) const {
  if (!autograd::is_plain(tensor)) return false;
  const auto storage = StorageToActivationTable::storage_of(tensor);
  return step_.running.waits() || !step_.running.reads(storage) || step_.running.writes(storage);
}

// The copy belongs to this op, whichever op made the value and wherever the value is.
void SavedTensorPackingDecider::offload(SavedTensorHandle& saved, const at::Tensor& tensor) {
  offload_.count_save();
  const SavedStoragePtr value =
      autograd::is_plain(tensor) ? values_.table().find(StorageToActivationTable::storage_of(tensor)) : nullptr;
  const ActivationOpOutputKey of = value ? value->key() : ActivationOpOutputKey{};
  const SavedStorage::Origin origin{of.op >= 0 ? of.op : saved.op(), of.op >= 0 ? of.output : kPrivateSave,
                                    step_.block};
  auto copy = copies_.take(tensor, origin);
  if (!copy) return;
  if (step_.trace) offloaded_.insert({origin.op, origin.output});
  saved.attach(values_.use(copy->value, SavedStorageConsumerReference::ConsumerKind::backward), copy->geometry);
  if (step_.trace) step_.trace->saved(saved.key());
}

// The op has returned: each waiting tensor is now an output, a written argument or the op's private tensor.
void SavedTensorPackingDecider::resolve(const RunningOpStoragesAndPendingSaves::Waiting& waiting) {
  const auto* written = step_.running.writes(waiting.storage);
  if (written && waiting.saved->version() == written->version) return;  // overwritten by the op itself: unpack throws
  if (offloads_saves()) return offload(*waiting.saved, waiting.saved->tensor());
  if (SavedStoragePtr value = values_.table().find(waiting.storage)) return attach(*waiting.saved, std::move(value));
  resolve_private(waiting);
}

void SavedTensorPackingDecider::resolve_private(const RunningOpStoragesAndPendingSaves::Waiting& waiting) {
  RunningOpStoragesAndPendingSaves& running = step_.running;
  const TensorPlacement place = ops_[running.op().id].saved();
  if (place == TensorPlacement::keep && !step_.costs) return;
  // Autocast shares the cast copy of a parameter between its consumers. It is never offloaded, and recomputed only from
  // the op's own input.
  if (waiting.cast_parameter && waiting.cast_source < 0) return;
  SavedTensorHandle& saved = *waiting.saved;
  const at::Tensor tensor = saved.tensor();
  if (step_.costs) record_private_cost(waiting, tensor);
  if (place == TensorPlacement::keep || (waiting.cast_parameter && place != TensorPlacement::recompute)) return;
  if (static_cast<int64_t>(tensor.storage().nbytes()) < plan_.saved_min_bytes) return;
  const auto add = [&](const RecordedOpPtr& producer) {
    return values_.add(tensor, running.op().id, kPrivateSave, place, producer, 0);
  };
  if (place != TensorPlacement::recompute) return attach(saved, add(nullptr));
  if (!running.written().empty()) return;
  if (waiting.cast_source >= 0) {
    const auto use = [this](const at::Tensor& source) { return values_.use_for_recomputation(source); };
    // cheaper than recomputing the op
    return attach(
        saved, add(recorder_.record_cast(running.input(waiting.cast_source), tensor.scalar_type(), step_.block, use)));
  }
  if (!running.instance) return;
  saved.attach(checkpoint::RecomputedPrivateSaveHandle(running.instance, saved.number()));
  if (step_.trace) step_.trace->saved({running.op().id, kPrivateSave, static_cast<int64_t>(tensor.nbytes())});
}

// Reports a private tensor that another plan could offload or recompute, whatever this plan does with it.
void SavedTensorPackingDecider::record_private_cost(const RunningOpStoragesAndPendingSaves::Waiting& waiting,
                                                    const at::Tensor& tensor) {
  step_.costs->saved_private(*waiting.saved, tensor.storage());
  if (waiting.cast_source < 0) return;
  const at::Tensor& source = step_.running.input(waiting.cast_source);
  const StorageToActivationTable& table = values_.table();
  step_.costs->cast(tensor.storage(),
                    table.covers(source) ? table.find(StorageToActivationTable::storage_of(source)) : nullptr);
}

}  // namespace memtune::step
