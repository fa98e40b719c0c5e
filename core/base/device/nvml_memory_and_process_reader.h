// The few functions of NVIDIA's management library that memtune uses, loaded at run time: it is part of the driver. All
// figures are unknown where there is no driver, and most are in containers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace memtune::device {

// Devices are named as CUDA numbers them, "cuda" or "cuda:1", which depends on CUDA_VISIBLE_DEVICES.
class NvmlMemoryAndProcessReader {
 public:
  NvmlMemoryAndProcessReader();
  ~NvmlMemoryAndProcessReader();
  NvmlMemoryAndProcessReader(const NvmlMemoryAndProcessReader&) = delete;
  NvmlMemoryAndProcessReader& operator=(const NvmlMemoryAndProcessReader&) = delete;

  int64_t processes(const std::string& device) const;                  // that compute on it; 0: unknown
  std::optional<int64_t> used_bytes(const std::string& device) const;  // by all processes; nothing: unknown
  std::optional<int64_t> free_bytes(const std::string& device) const;  // nothing: unknown
  int64_t largest_bytes() const;                                       // memory of the largest GPU here; 0: unknown

 private:
  template <typename Function>
  Function entry(const char* name) const;
  void* find(const std::string& name) const;
  struct Memory {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  std::optional<Memory> memory(void* device) const;

  void* library_;
  bool works_ = false;
};

}  // namespace memtune::device
