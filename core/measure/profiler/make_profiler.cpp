#include "core/base/device/cuda_module.h"
#include "core/measure/profiler/cpu_profiler.h"
#include "core/measure/profiler/profiler.h"

namespace memtune::profiler {

std::unique_ptr<Profiler> make_profiler(device::Device& device) {
  if (device.emulated()) return make_cpu_profiler(dynamic_cast<device::CpuEmulatedDevice&>(device));
  using Make = Profiler* (*)();
  return std::unique_ptr<Profiler>(reinterpret_cast<Make>(device::cuda_symbol("memtune_make_cupti_profiler"))());
}

}  // namespace memtune::profiler
