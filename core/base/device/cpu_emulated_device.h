// The CPU emulating a device. Each copy stream is a worker thread with a queue, and a copy is a memcpy there. The
// compute stream is the calling thread; it waits by blocking.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/device/capped_memory_counter.h"
#include "core/base/device/device.h"
#include "core/base/device/redundant_stream_wait_filter.h"

namespace memtune::device {

// One activity of a stream. Times are in ns of activity_clock().
struct EmulatedStreamActivityRecord {
  enum class Kind { copy_out, copy_in, wait };
  Kind kind = Kind::wait;
  StreamKind stream = StreamKind::compute;  // for waits always compute, the blocked thread
  int64_t start_ns = 0, end_ns = 0;
  int64_t bytes = 0;
  uint32_t tag = 0;  // for copies
};

int64_t activity_clock();  // steady, nanoseconds

class ActivityLog;
class Worker;

class CpuEmulatedDevice final : public Device {
 public:
  explicit CpuEmulatedDevice(
      CappedMemoryCounter& memory);  // the counter of the tensor allocator; must outlive the device
  ~CpuEmulatedDevice() override;     // waits for all copies

  Type type() const override { return Type::cpu; }
  std::string name() const override;
  int64_t total_bytes() const override;

  std::unique_ptr<HostBuffer> allocate_host(int64_t bytes, bool pinned = true) override;
  void copy(void* to, const void* from, int64_t bytes, CopyDirection direction, StreamKind stream) override;
  EventPtr record(StreamKind stream) override;
  EventPtr record_timed(StreamKind stream) override { return record(stream); }
  void wait(StreamKind stream, const EventPtr& event) override;
  void synchronize() override;

  AllocatorStats memory() const override;
  int64_t used_bytes() const override { return 0; }
  int64_t unmanaged_bytes() const override { return 0; }
  void reset_peak() override { memory_.reset_peak(); }
  void set_cap(int64_t bytes) override { memory_.set_cap(bytes); }
  void empty_cache() override {}

  // Later copies carry `tag` in recorded activities.
  void tag_copies(uint32_t tag) { tag_ = tag; }
  // Activities are recorded between start and stop. stop_recording() sets `lost` to the number that could not be
  // stored.
  void start_recording();
  std::vector<EmulatedStreamActivityRecord> stop_recording(int64_t& lost);

 private:
  Worker* worker(StreamKind stream) const;  // null for StreamKind::compute

  CappedMemoryCounter& memory_;
  std::shared_ptr<ActivityLog> log_;  // shared with events, which may outlive the device
  std::unique_ptr<Worker> out_, in_;
  RedundantStreamWaitFilter order_;
  uint32_t tag_ = 0;
};

}  // namespace memtune::device
