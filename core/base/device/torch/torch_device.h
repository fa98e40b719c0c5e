// Converts a Device to LibTorch's c10::Device.
#pragma once

#include <c10/core/Device.h>

#include "core/base/device/device.h"

namespace memtune::device {

inline c10::Device torch_device(const Device& device) {
  const auto index = static_cast<c10::DeviceIndex>(device.index());
  switch (device.type()) {
    case Device::Type::cpu: return c10::Device(c10::kCPU);
    case Device::Type::shapes: return c10::Device(c10::kMeta);
    case Device::Type::cuda: break;
  }
  return c10::Device(c10::kCUDA, index);
}

}  // namespace memtune::device
