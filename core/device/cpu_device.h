// The processor as the device. Its copy streams are worker threads with a queue each; a copy is a memcpy there.
// The compute stream is the calling thread: it waits by blocking.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/device/memory_counter.h"
#include "core/device/stream_order.h"

namespace memtune::device {

// Something a stream did. Times are nanoseconds of activity_clock().
struct Activity {
  enum class Kind { copy_out, copy_in, wait };
  Kind kind = Kind::wait;
  Stream stream = Stream::compute;  // waits: always compute, the thread that was blocked
  int64_t start_ns = 0, end_ns = 0;
  int64_t bytes = 0;
  uint32_t tag = 0;  // of copies
};

int64_t activity_clock();  // steady, nanoseconds

class ActivityLog;
class Worker;

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(MemoryCounter& memory);  // of whoever allocates tensors; outlives the device
  ~CpuDevice() override;                      // waits until the streams are empty

  Type type() const override { return Type::cpu; }
  std::string name() const override;
  int64_t total_bytes() const override;

  std::unique_ptr<HostSlab> allocate_host(int64_t bytes, bool pinned = true) override;
  void copy(void* to, const void* from, int64_t bytes, Direction direction, Stream stream) override;
  EventPtr record(Stream stream) override;
  EventPtr record_timed(Stream stream) override { return record(stream); }
  void wait(Stream stream, const EventPtr& event) override;
  void synchronize() override;

  MemoryUse memory() const override;
  int64_t used_bytes() const override { return 0; }
  void reset_peak() override { memory_.reset_peak(); }
  void set_cap(int64_t bytes) override { memory_.set_cap(bytes); }
  void empty_cache() override {}

  // Copies from now on carry `tag` in the record of activities.
  void tag_copies(uint32_t tag) { tag_ = tag; }
  // Activities are kept between start and stop only. stop says how many could not be kept in `lost`.
  void start_recording();
  std::vector<Activity> stop_recording(int64_t& lost);

 private:
  Worker* worker(Stream stream) const;  // null for compute

  MemoryCounter& memory_;
  std::shared_ptr<ActivityLog> log_;  // events hold it too: they may outlive the device
  std::unique_ptr<Worker> out_, in_;
  StreamOrder order_;
  uint32_t tag_ = 0;
};

}  // namespace memtune::device
