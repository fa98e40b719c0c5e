#include "core/base/device/nvml_memory_and_process_reader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/base/text.h"

namespace memtune::device {
namespace {

// NVML's codes; its handles are opaque here.
constexpr int kSuccess = 0, kTooSmall = 7;

// NVML numbers all GPUs of the machine. CUDA numbers those that CUDA_VISIBLE_DEVICES lists by number or UUID.
std::string nvml_name(const std::string& device) {
  const int64_t number = device.starts_with("cuda:") ? std::atoi(device.c_str() + 5) : 0;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible || !*visible) return std::to_string(number);
  const std::vector<std::string> names = split(visible, ',');
  return number < static_cast<int64_t>(names.size()) ? trim(names[static_cast<size_t>(number)]) : "";
}

}  // namespace

NvmlMemoryAndProcessReader::NvmlMemoryAndProcessReader()
    : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
  const auto init = entry<int (*)()>("nvmlInit_v2");
  works_ = init && init() == kSuccess;
}

NvmlMemoryAndProcessReader::~NvmlMemoryAndProcessReader() {
  const auto shutdown = entry<int (*)()>("nvmlShutdown");
  if (works_ && shutdown) shutdown();
  if (library_) dlclose(library_);
}

int64_t NvmlMemoryAndProcessReader::processes(const std::string& device) const {
  const auto count = entry<int (*)(void*, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses_v3");
  void* found = find(nvml_name(device));
  if (!found || !count) return 0;
  unsigned processes = 0;  // with room for none the call returns their number
  const int code = count(found, &processes, nullptr);
  return code == kSuccess || code == kTooSmall ? processes : 0;
}

std::optional<int64_t> NvmlMemoryAndProcessReader::used_bytes(const std::string& device) const {
  const std::optional<Memory> found = memory(find(nvml_name(device)));
  return found ? std::optional(static_cast<int64_t>(found->used)) : std::nullopt;
}

std::optional<int64_t> NvmlMemoryAndProcessReader::free_bytes(const std::string& device) const {
  const std::optional<Memory> found = memory(find(nvml_name(device)));
  return found ? std::optional(static_cast<int64_t>(found->free)) : std::nullopt;
}

int64_t NvmlMemoryAndProcessReader::largest_bytes() const {
  const auto count = entry<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
  unsigned devices = 0;
  if (!works_ || !count || count(&devices) != kSuccess) return 0;
  int64_t most = 0;
  for (unsigned i = 0; i < devices; ++i)
    if (const std::optional<Memory> found = memory(find(std::to_string(i))))
      most = std::max(most, static_cast<int64_t>(found->total));
  return most;
}

std::optional<NvmlMemoryAndProcessReader::Memory> NvmlMemoryAndProcessReader::memory(void* device) const {
  const auto tell = entry<int (*)(void*, Memory*)>("nvmlDeviceGetMemoryInfo");
  Memory memory{};
  return device && tell && tell(device, &memory) == kSuccess ? std::optional(memory) : std::nullopt;
}

template <typename Function>
Function NvmlMemoryAndProcessReader::entry(const char* name) const {
  return library_ ? reinterpret_cast<Function>(dlsym(library_, name)) : nullptr;
}

void* NvmlMemoryAndProcessReader::find(const std::string& name) const {
  void* device = nullptr;
  if (!works_ || name.empty()) return nullptr;
  if (name.find_first_not_of("0123456789") != std::string::npos) {
    const auto by_uuid = entry<int (*)(const char*, void**)>("nvmlDeviceGetHandleByUUID");
    return by_uuid && by_uuid(name.c_str(), &device) == kSuccess ? device : nullptr;
  }
  const auto by_index = entry<int (*)(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
  const auto index = static_cast<unsigned>(std::atoi(name.c_str()));
  return by_index && by_index(index, &device) == kSuccess ? device : nullptr;
}

}  // namespace memtune::device
