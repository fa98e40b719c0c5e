#pragma once

#include <memory>
#include <string>

#include "core/device/device.h"

namespace memtune::device {

// "cpu", "cuda", "cuda:1". The first call decides for the process. UsageError for an unknown name, DeviceError (with
// what is missing) when there is no such device. On CPU this installs the counting allocator: call it before any tensor
// is made.
std::unique_ptr<Device> make_device(const std::string& name);

}  // namespace memtune::device
