#include "core/base/device/torch/shape_device.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <charconv>
#include <string_view>

#include "core/base/device/allocation_grain.h"
#include "core/base/error.h"

namespace memtune::device {
namespace {

constexpr uint8_t kOverLibTorch = 100;  // over LibTorch's own allocator, which registers with 0

CappedMemoryCounter shape_bytes;

// The context of an allocation is its size, because there is no data.
void release_shape(void* context) {
  const auto* bytes = static_cast<int64_t*>(context);
  shape_bytes.deallocate(*bytes);
  delete bytes;
}

class ShapeAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t size) override {
    const at::Device device(c10::kMeta);
    if (size == 0) return {nullptr, device};
    const int64_t bytes = (static_cast<int64_t>(size) + kCudaGrain - 1) / kCudaGrain * kCudaGrain;
    if (!shape_bytes.take(bytes))
      C10_THROW_ERROR(OutOfMemoryError, "shapes of " + std::to_string(bytes) + " bytes exceed the cap");
    return {nullptr, new int64_t(bytes), &release_shape, device};
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

std::unique_ptr<HostBuffer> ShapeDevice::allocate_host(int64_t, bool) {
  throw DeviceError("a device of shapes has no data to copy to host memory");
}

EventPtr ShapeDevice::record(StreamKind) {
  static const EventPtr reached = std::make_shared<ReachedEvent>();
  return reached;
}

AllocatorStats ShapeDevice::memory() const {
  return {shape_bytes.allocated(), shape_bytes.peak(), shape_bytes.allocated(), shape_bytes.peak(), 0};
}

}  // namespace memtune::device
