#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace memtune::device {

// "cpu", "cuda", "cuda:1". The first call decides for the process. UsageError for an unknown name, DeviceError (with
// what is missing) when there is no such device. On CPU this installs the counting allocator: call it before any tensor
// is made.
std::unique_ptr<Device> make_device(const std::string& name);

// Those that the process may see. DeviceError without the CUDA module.
int count_cuda_devices();
// All of them, by index, to measure what they share: beside make_device's, which stays the one that the process uses
// and the calling thread's current one. What they share is safe from any thread: each may have a thread of its own, on
// which it is LibTorch's current device. DeviceError when one cannot be had.
std::vector<std::unique_ptr<Device>> make_all_cuda_devices();

}  // namespace memtune::device
