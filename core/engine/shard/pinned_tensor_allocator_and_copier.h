// Flat tensors in host memory, and copies between them and the device that overlap with compute.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/base/device/device.h"

namespace memtune::shard {

class PinnedTensorAllocatorAndCopier {
 public:
  explicit PinnedTensorAllocatorAndCopier(device::Device& device) : device_(device) {}
  ~PinnedTensorAllocatorAndCopier();
  PinnedTensorAllocatorAndCopier(const PinnedTensorAllocatorAndCopier&) = delete;
  PinnedTensorAllocatorAndCopier& operator=(const PinnedTensorAllocatorAndCopier&) = delete;

  // Returns zeros, page-locked unless the device is the CPU. Throws OutOfHostMemoryError.
  at::Tensor make(int64_t numbers, at::ScalarType dtype);
  int64_t bytes() const { return bytes_; }  // of all tensors made

  struct DeviceCopy {
    at::Tensor row;  // keep until the compute stream has waited for its readers
    device::EventPtr ready;
  };
  // Starts a copy to the device, after the compute work queued so far.
  DeviceCopy copy_to_device(const at::Tensor& on_host, c10::Device place);
  // Starts a copy to `to`, after the compute work queued so far. Keeps the source until the next take() or settle().
  void copy_to_host(at::Tensor from, const at::Tensor& to);
  // Blocks until all copies to the host are done.
  void await_copies();
  // Waits for running copies and drops their source; for destructors and after a failure.
  void stop() noexcept;

 private:
  void drop_source();  // compute waits for its copy first

  device::Device& device_;
  int64_t bytes_ = 0;
  at::Tensor source_;
  device::EventPtr taken_;
};

}  // namespace memtune::shard
