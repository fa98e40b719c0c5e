#include "core/engine/step/saved_tensor_offload_selector_and_compactor.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <limits>

namespace memtune::step {
namespace {

using autograd::SavedStorage;
using autograd::ViewGeometry;
using plan::RepeatedSavedTensorOffloadPolicy;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

int64_t bytes_of(const at::Tensor& tensor) { return tensor.numel() * static_cast<int64_t>(tensor.dtype().itemsize()); }

void release(void* owner) { delete static_cast<at::Storage*>(owner); }

// A range of a storage as a storage of its own. It keeps the whole storage alive.
at::Storage part_of(const at::Storage& whole, int64_t begin, int64_t bytes) {
  if (begin == 0 && bytes == static_cast<int64_t>(whole.nbytes())) return whole;
  char* data = static_cast<char*>(const_cast<void*>(whole.data())) + begin;
  at::DataPtr range(data, new at::Storage(whole), release, whole.device());
  return {at::Storage::use_byte_size_t(), static_cast<size_t>(bytes), std::move(range)};
}

// TRL's key: the storage's address in bytes plus the offset in elements.
const void* key_address(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.storage().data()) + tensor.storage_offset();
}

bool has_broadcast(const at::Tensor& tensor) { return std::ranges::count(tensor.strides(), 0) > 0; }

bool is_broadcast(const at::Tensor& tensor, int64_t dimension) {
  return tensor.stride(dimension) == 0 && tensor.size(dimension) > 1;
}

// The elements of which an expanded tensor repeats each. Reloaded without its strides of 0 a tensor takes other
// kernels, whose results differ in the last bits.
at::Tensor without_repeats(at::Tensor tensor) {
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (is_broadcast(tensor, i)) tensor = tensor.narrow(i, 0, 1);
  return tensor;
}

}  // namespace

SavedTensorOffloadSelectorAndCompactor::SavedTensorOffloadSelectorAndCompactor(
    const plan::TransferSettings& settings, c10::Device device, const std::vector<at::Tensor>& parameters)
    : settings_(settings), device_(device) {
  for (const at::Tensor& parameter : parameters) {
    parameters_.insert(parameter.unsafeGetTensorImpl());
    parameter_storages_.insert(StorageToActivationTable::storage_of(parameter));
  }
}

void SavedTensorOffloadSelectorAndCompactor::begin_step() {
  saves_ = 0;
  known_.clear();
  shared_.clear();
}

bool SavedTensorOffloadSelectorAndCompactor::is_kept_parameter(const at::Tensor& tensor) const {
  if (!settings_.compatibility.parameter_views || views_stay_)
    return parameter_storages_.contains(StorageToActivationTable::storage_of(tensor));
  return parameters_.contains(tensor.unsafeGetTensorImpl());
}

// True if the tensor was saved before and may still be in the stash. A tensor found once stays known for the step.
bool SavedTensorOffloadSelectorAndCompactor::repeats(const at::Tensor& tensor) {
  const auto known = known_.find({key_address(tensor), tensor.scalar_type()});
  if (known == known_.end()) return false;
  known->second = kForever;
  return true;
}

std::optional<SavedTensorOffloadSelectorAndCompactor::Copy> SavedTensorOffloadSelectorAndCompactor::take(
    const at::Tensor& tensor, const SavedStorage::Origin& origin) {
  const int64_t save = ++saves_;
  if (tensor.device() != device_ || !autograd::is_plain(tensor) || tensor.numel() == 0) return std::nullopt;
  if (settings_.compatibility.repeats == RepeatedSavedTensorOffloadPolicy::stay && repeats(tensor)) return std::nullopt;
  if (bytes_of(tensor) < settings_.min_bytes || is_kept_parameter(tensor)) return std::nullopt;
  if (settings_.compatibility.repeats == RepeatedSavedTensorOffloadPolicy::stay) {
    std::erase_if(known_,
                  [&](const auto& known) { return known.second <= save - settings_.compatibility.stash_saves; });
    known_[{key_address(tensor), tensor.scalar_type()}] = save;
  }
  return settings_.compatibility.repeats == RepeatedSavedTensorOffloadPolicy::share ? share(tensor, origin)
                                                                                    : copy(tensor, origin);
}

SavedTensorOffloadSelectorAndCompactor::Copy SavedTensorOffloadSelectorAndCompactor::share(
    const at::Tensor& tensor, const SavedStorage::Origin& origin) {
  const View view{StorageToActivationTable::storage_of(tensor),
                  tensor.unsafeGetTensorImpl()->version_counter().current_version(),
                  tensor.storage_offset(),
                  tensor.scalar_type(),
                  tensor.sizes().vec(),
                  tensor.strides().vec()};
  const auto known = shared_.find(view);
  if (known != shared_.end())
    if (autograd::SavedStoragePtr value = known->second.value.lock(); value && value->used())
      return {std::move(value), {}, packed(tensor)};
  Copy made = copy(tensor, origin);
  shared_.insert_or_assign(view, Shared{tensor.storage().getWeakStorageImpl(), made.value});
  return made;
}

ViewGeometry SavedTensorOffloadSelectorAndCompactor::packed(const at::Tensor& tensor) const {
  ViewGeometry geometry(tensor);
  if (settings_.compatibility.flat_broadcasts && has_broadcast(tensor)) return geometry;
  geometry.offset = 0;
  if (!tensor.is_non_overlapping_and_dense()) {
    const at::Tensor once = without_repeats(tensor.detach());
    const at::Tensor dense = at::empty_like(once, once.options().device(c10::kMeta));
    for (int64_t i = 0; i < tensor.dim(); ++i) geometry.strides[i] = is_broadcast(tensor, i) ? 0 : dense.stride(i);
  }
  return geometry;
}

SavedTensorOffloadSelectorAndCompactor::Copy SavedTensorOffloadSelectorAndCompactor::copy(
    const at::Tensor& tensor, const SavedStorage::Origin& origin) const {
  at::Storage bytes = tensor.storage();
  const bool flat = settings_.compatibility.flat_broadcasts && has_broadcast(tensor);
  if (!flat) {
    const at::Tensor once = tensor.is_non_overlapping_and_dense() ? tensor : without_repeats(tensor.detach());
    if (once.is_non_overlapping_and_dense())
      bytes = part_of(bytes, once.storage_offset() * static_cast<int64_t>(once.dtype().itemsize()), bytes_of(once));
    else
      bytes = at::empty_like(once).copy_(once).storage();
  }
  auto value = std::make_shared<SavedStorage>(bytes, origin, plan::TensorPlacement::host);
  return {std::move(value), std::move(bytes), packed(tensor)};
}

}  // namespace memtune::step
