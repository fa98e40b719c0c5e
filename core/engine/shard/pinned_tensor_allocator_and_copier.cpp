#include "core/engine/shard/pinned_tensor_allocator_and_copier.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace memtune::shard {

using device::CopyDirection;
using device::StreamKind;

PinnedTensorAllocatorAndCopier::~PinnedTensorAllocatorAndCopier() { stop(); }

void PinnedTensorAllocatorAndCopier::stop() noexcept {
  device_.synchronize_quietly();
  source_.reset();
  taken_ = nullptr;
}

at::Tensor PinnedTensorAllocatorAndCopier::make(int64_t numbers, at::ScalarType dtype) {
  const int64_t bytes = std::max<int64_t>(numbers * static_cast<int64_t>(c10::elementSize(dtype)), 1);
  std::shared_ptr<device::HostBuffer> slab = device_.allocate_host(bytes);
  bytes_ += bytes;
  std::memset(slab->data(), 0, static_cast<size_t>(bytes));
  return at::from_blob(
      slab->data(), {numbers}, [slab](void* /*data*/) {}, at::TensorOptions(dtype));
}

PinnedTensorAllocatorAndCopier::DeviceCopy PinnedTensorAllocatorAndCopier::copy_to_device(const at::Tensor& on_host,
                                                                                          c10::Device place) {
  DeviceCopy device_copy{at::empty(on_host.sizes(), on_host.options().device(place)), nullptr};
  device_.wait(StreamKind::in, device_.record(StreamKind::compute));  // earlier work on that memory may still run
  device_.copy(device_copy.row.data_ptr(), on_host.const_data_ptr(), static_cast<int64_t>(on_host.nbytes()),
               CopyDirection::to_device, StreamKind::in);
  device_copy.ready = device_.record(StreamKind::in);
  return device_copy;
}

void PinnedTensorAllocatorAndCopier::copy_to_host(at::Tensor from, const at::Tensor& to) {
  drop_source();
  device_.wait(StreamKind::out, device_.record(StreamKind::compute));
  device_.copy(to.data_ptr(), from.const_data_ptr(), static_cast<int64_t>(from.nbytes()), CopyDirection::to_host,
               StreamKind::out);
  taken_ = device_.record(StreamKind::out);
  source_ = std::move(from);
}

void PinnedTensorAllocatorAndCopier::await_copies() {
  if (taken_) taken_->synchronize();
  drop_source();
}

void PinnedTensorAllocatorAndCopier::drop_source() {
  if (taken_) device_.wait(StreamKind::compute, taken_);
  taken_ = nullptr;
  source_.reset();
}

}  // namespace memtune::shard
