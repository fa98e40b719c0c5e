#include "core/base/device/torch/shape_only_meta_device.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string_view>

#include "core/base/device/allocation_grain.h"
#include "core/base/device/simulated_caching_allocator.h"
#include "core/base/error.h"

namespace memtune::device {
namespace {

constexpr uint8_t kOverLibTorch = 100;  // over LibTorch's own allocator, which registers with 0

CappedMemoryCounter shape_bytes;

// The blocks that CUDA's caching allocator would take.
class ShapeBlocks {
 public:
  using Block = SimulatedCachingAllocator::Block;

  Block take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const Block block = blocks_.take(bytes);
    if (!block.tracked()) small_bytes_ += block.bytes;
    peak_bytes_ = std::max(peak_bytes_, blocks_.reserved_bytes() + small_bytes_);
    return block;
  }
  void deallocate(const Block& block) {
    const std::lock_guard lock(mutex_);
    if (!block.tracked()) small_bytes_ -= block.bytes;
    blocks_.deallocate(block);
  }
  int64_t reserved_bytes() {
    const std::lock_guard lock(mutex_);
    return blocks_.reserved_bytes() + small_bytes_;
  }
  int64_t peak_reserved_bytes() {
    const std::lock_guard lock(mutex_);
    return peak_bytes_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_bytes_ = blocks_.reserved_bytes() + small_bytes_;
  }
  void release_free_segments() {
    const std::lock_guard lock(mutex_);
    blocks_.begin_again();
  }

 private:
  std::mutex mutex_;
  SimulatedCachingAllocator blocks_{kCudaGrain};
  int64_t small_bytes_ = 0, peak_bytes_ = 0;
};
ShapeBlocks& shape_blocks() {
  static auto* blocks = new ShapeBlocks;  // never destroyed: tensors may outlive static objects
  return *blocks;
}

// The context of an allocation is its block, because there is no data.
void release_shape(void* context) {
  const auto* block = static_cast<ShapeBlocks::Block*>(context);
  shape_bytes.deallocate(block->bytes);
  shape_blocks().deallocate(*block);
  delete block;
}

class ShapeAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t size) override {
    const at::Device device(c10::kMeta);
    if (size == 0) return {nullptr, device};
    const ShapeBlocks::Block block = shape_blocks().take(static_cast<int64_t>(size));
    if (!shape_bytes.take(block.bytes)) {
      shape_blocks().deallocate(block);
      C10_THROW_ERROR(OutOfMemoryError, "shapes of " + std::to_string(block.bytes) + " bytes exceed the cap");
    }
    return {nullptr, new ShapeBlocks::Block(block), &release_shape, device};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}
};

class ReachedEvent final : public StreamEvent {
 public:
  bool done() const override { return true; }
  void synchronize() override {}
  double ms_since(const StreamEvent&) const override { return 0; }
};

}  // namespace

CappedMemoryCounter& install_shape_allocator() {
  static auto* allocator = new ShapeAllocator;  // never destroyed: tensors may outlive static objects
  c10::SetAllocator(c10::kMeta, allocator, kOverLibTorch);
  return shape_bytes;
}

int shape_capability(const std::string& device) {
  constexpr std::string_view kPrefix = "shapes:";
  if (!device.starts_with(kPrefix)) return -1;
  int capability = -1;
  const char* const end = device.data() + device.size();
  const auto [read, error] = std::from_chars(device.data() + kPrefix.size(), end, capability);
  return error == std::errc() && read == end ? capability : -1;
}

std::unique_ptr<HostBuffer> ShapeOnlyMetaDevice::allocate_host(int64_t, bool) {
  throw DeviceError("a device of shapes has no data to copy to host memory");
}

EventPtr ShapeOnlyMetaDevice::record(StreamKind) {
  static const EventPtr reached = std::make_shared<ReachedEvent>();
  return reached;
}

void ShapeOnlyMetaDevice::reset_peak() {
  memory_.reset_peak();
  shape_blocks().reset_peak();
}

void ShapeOnlyMetaDevice::empty_cache() { shape_blocks().release_free_segments(); }

AllocatorStats ShapeOnlyMetaDevice::memory() const {
  return {shape_bytes.allocated(), shape_bytes.peak(), shape_blocks().reserved_bytes(),
          shape_blocks().peak_reserved_bytes(), 0};
}

}  // namespace memtune::device
