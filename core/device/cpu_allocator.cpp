#include "core/device/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstring>
#include <string>

namespace memtune::device::cpu_allocator {
namespace {

// The size stands before the bytes, in a header as large as LibTorch's alignment.
constexpr size_t kHeader = 64;
constexpr uint8_t kPriority = 100;  // over LibTorch's own allocators, which register with 0

std::atomic<int64_t> allocated_bytes{0}, peak_bytes{0}, cap_bytes{0};

void raise_peak(int64_t bytes) {
  int64_t peak = peak_bytes;
  while (bytes > peak && !peak_bytes.compare_exchange_weak(peak, bytes)) {
  }
}

// Compare-and-swap, not add-and-undo: a refused allocation must not make one on another thread fail.
int64_t take(int64_t bytes) {
  int64_t now = allocated_bytes;
  do {
    const int64_t cap = cap_bytes;
    if (cap > 0 && bytes > cap - now) {
      C10_THROW_ERROR(OutOfMemoryError, "CPU device out of memory: tried to allocate " + std::to_string(bytes) +
                                            " bytes, " + std::to_string(now) + " bytes are allocated, the cap is " +
                                            std::to_string(cap) + " bytes");
    }
  } while (!allocated_bytes.compare_exchange_weak(now, now + bytes));
  return now + bytes;
}

void release(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kHeader;
  int64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  c10::free_cpu(block);
  allocated_bytes -= bytes;
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t size) override {
    if (size == 0) return {nullptr, nullptr, &release, at::kCPU};
    const auto bytes = static_cast<int64_t>(size);
    const int64_t now = take(bytes);
    char* block = nullptr;
    try {
      block = static_cast<char*>(c10::alloc_cpu(size + kHeader));
    } catch (...) {
      allocated_bytes -= bytes;
      throw;
    }
    raise_peak(now);
    std::memcpy(block, &bytes, sizeof bytes);
    return {block + kHeader, block + kHeader, &release, at::kCPU};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void install() {
  static auto* allocator = new CountingAllocator;  // never destroyed: tensors may outlive static objects
  c10::SetCPUAllocator(allocator, kPriority);
}

int64_t allocated() { return allocated_bytes; }
int64_t peak() { return peak_bytes; }
void reset_peak() { peak_bytes = allocated_bytes.load(); }
void set_cap(int64_t bytes) { cap_bytes = bytes; }

}  // namespace memtune::device::cpu_allocator
