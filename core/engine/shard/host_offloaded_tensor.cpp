#include "core/engine/shard/host_offloaded_tensor.h"

#include <ATen/ATen.h>

#include <utility>

#include "core/base/device/torch/storage_bytes.h"

namespace memtune::shard {

using device::CopyDirection;
using device::StreamKind;

HostOffloadedTensor::HostOffloadedTensor(const at::Tensor& row, PinnedTensorAllocatorAndCopier& host,
                                         device::Device& device)
    : row_(row), on_host_(host.make(row.numel(), row.scalar_type())), device_(&device) {
  store();
  stored_->synchronize();
  stored_ = nullptr;
  free();
}

void HostOffloadedTensor::make_room() {
  free_later_ = false;
  if (!on_device()) device::allocate_bytes(row_, bytes());
}

void HostOffloadedTensor::load() {
  const bool is_there = on_device();
  make_room();
  if (is_there) return;
  device_->wait(StreamKind::in, device_->record(StreamKind::compute));  // earlier work on that memory may still run
  device_->copy(row_.data_ptr(), on_host_.const_data_ptr(), bytes(), CopyDirection::to_device, StreamKind::in);
  loaded_ = device_->record(StreamKind::in);
}

void HostOffloadedTensor::wait() {
  if (const device::EventPtr loaded = std::exchange(loaded_, nullptr)) device_->wait(StreamKind::compute, loaded);
}

void HostOffloadedTensor::store() {
  settle();
  device_->wait(StreamKind::out, device_->record(StreamKind::compute));
  device_->copy(on_host_.data_ptr(), row_.const_data_ptr(), bytes(), CopyDirection::to_host, StreamKind::out);
  stored_ = device_->record(StreamKind::out);
}

void HostOffloadedTensor::free() {
  wait();  // memory under a running copy cannot be used again
  free_later_ = storing();
  if (!free_later_ && on_device()) device::free_bytes(row_);
}

void HostOffloadedTensor::settle() {
  if (!stored_) return;
  device_->wait(StreamKind::compute, std::exchange(stored_, nullptr));
  if (std::exchange(free_later_, false)) free();
}

at::Tensor HostOffloadedTensor::on_host(const at::Tensor& view) const {
  const at::Tensor empty = at::empty({0}, on_host_.options().dtype(view.scalar_type()));
  return empty.set_(on_host_.storage(), view.storage_offset(), view.sizes(), view.strides());
}

void HostOffloadedTensor::stop() noexcept {
  device_->synchronize_quietly();
  loaded_ = stored_ = nullptr;
  free_later_ = false;
  if (on_device()) device::free_bytes(row_);
}

}  // namespace memtune::shard
