#include "core/base/device/torch/make_device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include <mutex>

#include "core/base/device/cpu_emulated_device.h"
#include "core/base/device/cuda_module.h"
#include "core/base/device/torch/cpu_allocator.h"
#include "core/base/device/torch/shape_only_meta_device.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::device {
namespace {

constexpr int kCpu = -1, kShapes = -2;
constexpr int kMaxDevices = 64;  // LibTorch's own limit is not higher

// "cpu": kCpu; "shapes:N": kShapes; "cuda", "cuda:N": the index.
int parse_device(const std::string& name) {
  if (name == "cpu") return kCpu;
  if (shape_capability(name) >= 0) return kShapes;
  if (name == "cuda") return 0;
  if (name.rfind("cuda:", 0) == 0) {
    const int64_t index = parse_integer(name.substr(5), "device '" + name + "'");
    if (index >= 0 && index < kMaxDevices) return static_cast<int>(index);
  }
  static const std::string known[] = {"cpu", "cuda", "cuda:0"};
  throw UsageError(unknown_name("device", name, known));
}

using MakeCuda = Device* (*)(int);
MakeCuda cuda_maker() { return reinterpret_cast<MakeCuda>(cuda_symbol("memtune_make_cuda_device")); }

std::unique_ptr<Device> make_cuda_device(int index) { return std::unique_ptr<Device>(cuda_maker()(index)); }

}  // namespace

std::unique_ptr<Device> make_device(const std::string& name) {
  static std::mutex mutex;
  static std::string decided;
  std::lock_guard lock(mutex);

  const int index = parse_device(name);
  const std::string full = index >= 0 ? "cuda:" + std::to_string(index) : name;
  if (!decided.empty() && decided != full) {
    throw UsageError("device '" + name + "': this process already uses '" + decided + "'; it takes another process");
  }
  std::unique_ptr<Device> device;
  if (index == kCpu) {
    device = std::make_unique<CpuEmulatedDevice>(install_cpu_allocator());
  } else if (index == kShapes) {
    device = std::make_unique<ShapeOnlyMetaDevice>(install_shape_allocator());
  } else {
    device = make_cuda_device(index);
  }
  decided = full;
  return device;
}

int count_cuda_devices() {
  cuda_maker();  // loads the module, which must precede LibTorch's query
  return at::detail::getCUDAHooks().deviceCount();
}

std::vector<std::unique_ptr<Device>> make_all_cuda_devices() {
  std::vector<std::unique_ptr<Device>> devices;
  const int count = count_cuda_devices();
  if (count == 0) return devices;
  const c10::DeviceGuard current{c10::Device(c10::kCUDA)};  // restores it, because creating a device changes it
  for (int index = 0; index < count; ++index) devices.push_back(make_cuda_device(index));
  return devices;
}

}  // namespace memtune::device
