#include "core/engine/step/saved_tensor_handle.h"

namespace memtune::step {

using autograd::SavedStorageConsumerReference;
using checkpoint::RecomputedPrivateSaveHandle;
using trace::ActivationOpOutputKey;

// Keeping the tensor itself would be a reference cycle: its history owns this ticket.
SavedTensorHandle::SavedTensorHandle(Unpacker& unpacker, const at::Tensor& tensor, int block, int number, int op)
    : unpacker_(unpacker),
      counter_(tensor.unsafeGetTensorImpl()->version_counter()),
      version_(counter_.current_version()),
      op_(op),
      block_(block),
      number_(number) {
  if (autograd::is_plain(tensor)) {
    geometry_ = autograd::ViewGeometry(tensor);
    bytes_ = tensor.storage();
  } else {
    bytes_ = tensor.detach();
  }
}

ActivationOpOutputKey SavedTensorHandle::key() const {
  if (const auto* use = std::get_if<SavedStorageConsumerReference>(&bytes_)) return (*use)->key();
  if (const auto* own = std::get_if<RecomputedPrivateSaveHandle>(&bytes_)) return {own->op(), kPrivateSave};
  return {};
}

void SavedTensorHandle::check_version() const {
  TORCH_CHECK(counter_.current_version() == version_,
              "one of the variables needed for gradient computation has been modified by an inplace operation: a "
              "saved tensor of ",
              geometry_.dtype.name(), " is at version ", counter_.current_version(), "; expected version ", version_,
              " instead");
}

at::Tensor SavedTensorHandle::tensor() const {
  if (const auto* use = std::get_if<SavedStorageConsumerReference>(&bytes_)) return geometry_.view((*use)->bytes());
  if (const auto* own = std::get_if<RecomputedPrivateSaveHandle>(&bytes_)) return own->tensor();
  if (const auto* other = std::get_if<Other>(&bytes_)) return *other;
  return geometry_.view(std::get<at::Storage>(bytes_));
}

void SavedTensorHandle::release_recomputed() noexcept {
  auto* use = std::get_if<SavedStorageConsumerReference>(&bytes_);
  if (use && (*use)->place() == plan::TensorPlacement::recompute) use->end();
}

}  // namespace memtune::step
