// Makes memory errors visible: allocators of CPU tensors that are notified of every allocation and free.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <new>
#include <utility>

namespace memtune::tests {

// Wraps the current allocator. It must outlive the tensors that it allocated.
class WatchedMemory : private c10::Allocator {
 public:
  void install() {
    if (c10::GetCPUAllocator() == this) return;
    former_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(this, kPriority);
  }
  void remove() { c10::SetCPUAllocator(former_, kPriority); }

 protected:
  virtual void allocated(void* data, size_t bytes) = 0;
  virtual void freed(void* data, size_t bytes, c10::DataPtr memory) = 0;  // releasing `memory` frees it

 private:
  // Precedes the bytes, in a header as large as LibTorch's alignment.
  struct Block {
    WatchedMemory* watch;
    c10::DataPtr memory;
    size_t bytes;
  };
  static constexpr size_t kHeader = 64;
  static_assert(sizeof(Block) <= kHeader);

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::DeviceType::CPU};
    c10::DataPtr memory = former_->allocate(bytes + kHeader);
    char* header = static_cast<char*>(memory.get());
    new (header) Block{this, std::move(memory), bytes};
    char* data = header + kHeader;
    allocated(data, bytes);
    return {data, data, &release, c10::DeviceType::CPU};
  }
  static void release(void* data) {
    if (!data) return;
    auto* block = reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader);
    Block held = std::move(*block);
    block->~Block();
    held.watch->freed(data, held.bytes, std::move(held.memory));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  static constexpr uint8_t kPriority = 100;  // priority of the CPU device's counting allocator
  c10::Allocator* former_ = nullptr;
};

// From now on reading freed or uninitialized memory gives NaNs.
inline void poison_cpu_memory() {
  class Poisoned final : public WatchedMemory {
    void allocated(void* data, size_t bytes) override { std::memset(data, 0xFF, bytes); }
    void freed(void* data, size_t bytes, c10::DataPtr) override { std::memset(data, 0xFF, bytes); }
  };
  static auto* memory = new Poisoned;  // never destroyed: tensors may outlive static objects
  memory->install();
}

}  // namespace memtune::tests
