// A device of shapes: LibTorch's meta device, whose tensors have sizes and no bytes. It counts what a CUDA device would
// allocate for them. No kernel runs, nothing is copied, and all events are reached at once: times are zero.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/device/capped_memory_counter.h"
#include "core/base/device/device.h"

namespace memtune::device {

// Makes it LibTorch's allocator of the meta device, and returns the process's counter. Counted are the blocks that
// PyTorch's CUDA allocator would take (SimulatedCachingAllocator). Earlier tensors are not counted. Thread: any.
CappedMemoryCounter& install_shape_allocator();

// "shapes:89" is the device of shapes of a GPU of compute capability 8.9. -1: `device` is another one, or malformed.
int shape_capability(const std::string& device);

class ShapeOnlyMetaDevice final : public Device {
 public:
  explicit ShapeOnlyMetaDevice(CappedMemoryCounter& memory) : memory_(memory) {}  // must outlive the device

  Type type() const override { return Type::shapes; }
  std::string name() const override { return "shapes"; }
  int64_t total_bytes() const override { return 0; }

  std::unique_ptr<HostBuffer> allocate_host(int64_t bytes,
                                            bool pinned) override;  // throws DeviceError: there is no data
  void copy(void*, const void*, int64_t, CopyDirection, StreamKind) override {}
  EventPtr record(StreamKind stream) override;
  EventPtr record_timed(StreamKind stream) override { return record(stream); }
  void wait(StreamKind, const EventPtr&) override {}
  void synchronize() override {}

  AllocatorStats memory() const override;
  int64_t used_bytes() const override { return 0; }
  int64_t unmanaged_bytes() const override { return 0; }
  void reset_peak() override;
  void set_cap(int64_t bytes) override { memory_.set_cap(bytes); }
  void empty_cache() override;

 private:
  CappedMemoryCounter& memory_;
};

}  // namespace memtune::device
