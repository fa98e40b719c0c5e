#include "core/base/device/torch/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <string>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/limits.h"

namespace memtune::device {
namespace {

// The size is stored before the data, in a header as large as LibTorch's alignment.
constexpr size_t kHeader = 64;
constexpr uint8_t kPriority = 100;  // over LibTorch's own allocators, which register with 0

CappedMemoryCounter counter;

void release(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kHeader;
  int64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  c10::free_cpu(block);
  counter.deallocate(bytes);
}

[[noreturn]] void refuse(int64_t bytes) {
  C10_THROW_ERROR(OutOfMemoryError, "CPU device out of memory: tried to allocate " + std::to_string(bytes) +
                                        " bytes, " + std::to_string(counter.allocated()) +
                                        " bytes are allocated, the cap is " + std::to_string(counter.cap()) + " bytes");
}

// Not the emulated cap: the machine itself has no more memory.
[[noreturn]] void refuse_of_host(int64_t bytes) {
  const std::string limit = memory_limit();
  throw OutOfHostMemoryError("out of host memory: tried to allocate " + format_bytes(bytes) + " with " +
                             format_bytes(counter.allocated()) + " allocated" + (limit.empty() ? "" : "; " + limit));
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t size) override {
    if (size == 0) return {nullptr, nullptr, &release, at::kCPU};
    const auto bytes = static_cast<int64_t>(size);
    if (!counter.take(bytes)) refuse(bytes);
    char* block = nullptr;
    try {
      block = static_cast<char*>(c10::alloc_cpu(size + kHeader));
    } catch (const c10::Error&) {
      counter.deallocate(bytes);
      refuse_of_host(bytes);
    }
    std::memcpy(block, &bytes, sizeof bytes);
    return {block + kHeader, block + kHeader, &release, at::kCPU};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

CappedMemoryCounter& install_cpu_allocator() {
  static auto* allocator = new CountingAllocator;  // never destroyed: tensors may outlive static objects
  c10::SetCPUAllocator(allocator, kPriority);
  return counter;
}

}  // namespace memtune::device
