#include "core/engine/step/running_op_storages_and_pending_saves.h"

#include <algorithm>

#include "core/engine/autograd/casts.h"
#include "core/model/program/tensors.h"

namespace memtune::step {

using program::Stack;

void RunningOpStoragesAndPendingSaves::begin(const program::Op& op, const Stack& inputs,
                                             const StorageToActivationTable& values, bool autocast) {
  end();
  op_ = &op;
  autocast_ = autocast;
  program::for_each_tensor(inputs, [&](const at::Tensor& tensor) {
    if (tensor.defined() && autograd::is_plain(tensor)) read_.push_back(StorageToActivationTable::storage_of(tensor));
    if (autocast) inputs_.push_back(tensor);
  });
  for (size_t i = 0; i < op.writes.size() && i < inputs.size(); ++i) {
    if (!op.writes[i] || !inputs[i].isTensor() || !values.covers(inputs[i].toTensor())) continue;
    const at::Tensor& tensor = inputs[i].toTensor();
    const Storage storage = StorageToActivationTable::storage_of(tensor);
    written_.push_back({storage, static_cast<int>(i), tensor,
                        tensor.unsafeGetTensorImpl()->version_counter().current_version(), values.find(storage)});
  }
}

void RunningOpStoragesAndPendingSaves::end() noexcept {
  op_ = nullptr;
  saves_ = 0;
  read_.clear();
  inputs_.clear();
  written_.clear();
  waiting_.clear();
  instance.reset();
}

bool RunningOpStoragesAndPendingSaves::reads(Storage storage) const {
  return std::find(read_.begin(), read_.end(), storage) != read_.end();
}

const RunningOpStoragesAndPendingSaves::Written* RunningOpStoragesAndPendingSaves::writes(Storage storage) const {
  const auto same = [&](const Written& written) { return written.storage == storage; };
  const auto found = std::find_if(written_.begin(), written_.end(), same);
  return found == written_.end() ? nullptr : &*found;
}

bool RunningOpStoragesAndPendingSaves::writes_outside() const {
  return std::any_of(written_.begin(), written_.end(), [](const Written& written) { return written.from_outside(); });
}

void RunningOpStoragesAndPendingSaves::wait_for_end(SavedTensorHandle& saved, const at::Tensor& tensor) {
  Waiting& waiting = waiting_.emplace_back(Waiting{&saved, StorageToActivationTable::storage_of(tensor)});
  if (!autocast_) return;
  waiting.cast_parameter = autograd::is_cast_parameter(tensor);
  waiting.cast_source = autograd::find_cast_source(tensor, inputs_);
}

void RunningOpStoragesAndPendingSaves::forget(const SavedTensorHandle& saved) noexcept {
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.saved == &saved; });
}

}  // namespace memtune::step
