// Creates the device of a trial by name, on LibTorch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/device/device.h"

namespace memtune::device {

// Names are "cpu", "cuda", "cuda:1". The first call decides for the process. Throws UsageError for an unknown name, and
// DeviceError with the missing part if there is no such device. "cpu" installs the counting allocator, so call this
// before creating tensors.
std::unique_ptr<Device> make_device(const std::string& name);

// Number of CUDA devices visible to the process. Throws DeviceError without the CUDA module.
int count_cuda_devices();
// All visible devices by index, to measure shared resources such as PCIe. The device of make_device() stays the
// process's device and the calling thread's current one. Each device may be used on a thread of its own where it is
// LibTorch's current device; shared state is thread-safe. Throws DeviceError if one fails.
std::vector<std::unique_ptr<Device>> make_all_cuda_devices();

}  // namespace memtune::device
