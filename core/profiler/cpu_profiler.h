// The profiler of the emulated device: what its streams did, and compute as the time in which nothing blocked it.
#pragma once

#include <memory>

#include "core/device/cpu_device.h"
#include "core/profiler/profiler.h"

namespace memtune::profiler {

std::unique_ptr<Profiler> make_cpu_profiler(device::CpuDevice& device);

}  // namespace memtune::profiler
