// The profiler of the emulated device: records its streams, and counts time in which nothing blocked it as compute.
#pragma once

#include <memory>

#include "core/base/device/cpu_emulated_device.h"
#include "core/measure/profiler/device_activity_profiler.h"

namespace memtune::profiler {

std::unique_ptr<DeviceActivityProfiler> make_cpu_profiler(device::CpuEmulatedDevice& device);

}  // namespace memtune::profiler
