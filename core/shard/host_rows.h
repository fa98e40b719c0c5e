// Rows of numbers in host memory, and copies of them that go beside what the device computes.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/device/device.h"

namespace memtune::shard {

class HostRows {
 public:
  explicit HostRows(device::Device& device) : device_(device) {}
  ~HostRows();
  HostRows(const HostRows&) = delete;
  HostRows& operator=(const HostRows&) = delete;

  // Zeros, page-locked where the device is none of the processor's. OutOfHostMemory.
  at::Tensor make(int64_t numbers, at::ScalarType dtype);
  int64_t bytes() const { return bytes_; }  // of all that were made

  struct Brought {
    at::Tensor row;  // keep it until compute stands behind what reads it
    device::EventPtr there;
  };
  // A copy on the device, behind what compute has got so far.
  Brought bring(const at::Tensor& on_host, c10::Device place);
  // Into `to`, behind what compute has got so far; the source stays until the next take() or settle().
  void take(at::Tensor from, const at::Tensor& to);
  // What was taken is there.
  void settle();
  // No copy is under way; for destructors and after a failure.
  void stop() noexcept;

 private:
  void drop_source();  // compute stands behind its copy from here on

  device::Device& device_;
  int64_t bytes_ = 0;
  at::Tensor source_;
  device::EventPtr taken_;
};

}  // namespace memtune::shard
