#include "core/base/device/cuda_module.h"
#include "core/measure/profiler/cpu_profiler.h"
#include "core/measure/profiler/device_activity_profiler.h"

namespace memtune::profiler {

std::unique_ptr<DeviceActivityProfiler> make_profiler(device::Device& device) {
  if (device.emulated()) return make_cpu_profiler(dynamic_cast<device::CpuEmulatedDevice&>(device));
  using Make = DeviceActivityProfiler* (*)();
  return std::unique_ptr<DeviceActivityProfiler>(
      reinterpret_cast<Make>(device::cuda_symbol("memtune_make_cupti_profiler"))());
}

}  // namespace memtune::profiler
