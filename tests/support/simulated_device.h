// A device that copies nothing: it counts calls and computes when they would finish. Each copy stream has a fixed rate
// in bytes per microsecond. Compute is the calling thread. Time advances when the test says so, or when compute waits.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/device/device.h"
#include "core/base/device/redundant_stream_wait_filter.h"

namespace memtune::tests {

class SimulatedDevice : public device::Device {
 public:
  using StreamKind = device::StreamKind;
  explicit SimulatedDevice(double bytes_a_us) : bytes_a_us_(bytes_a_us) {}

  struct Calls {  // calls that a driver would get
    int records = 0, waits = 0, queries = 0, copies = 0, batches = 0;
    int all() const { return records + waits + queries + copies + batches; }
  };
  Calls calls;
  int memory_calls = 0;
  double now_us = 0;      // of the calling thread and of compute
  double stalled_us = 0;  // time that compute waited

  Type type() const override { return Type::cpu; }
  std::string name() const override { return "simulated"; }
  int64_t total_bytes() const override { return int64_t{1} << 40; }
  std::unique_ptr<device::HostBuffer> allocate_host(int64_t bytes, bool) override {
    struct Slab final : device::HostBuffer {
      explicit Slab(int64_t bytes) : size(bytes) {}
      char* data() override { return reinterpret_cast<char*>(4096); }  // never accessed
      int64_t bytes() const override { return size; }
      int64_t size;
    };
    return std::make_unique<Slab>(bytes);
  }

  void copy(void*, const void*, int64_t bytes, device::CopyDirection, StreamKind stream) override {
    ++calls.copies;
    run(bytes, stream);
  }
  void copy_batch(std::span<const Copy> copies, device::CopyDirection, StreamKind stream) override {
    ++calls.batches;
    for (const Copy& copy : copies) run(copy.bytes, stream);
  }
  device::EventPtr record(StreamKind stream) override {
    ++calls.records;
    return std::make_shared<Mark>(*this, std::max(now_us, free_us(stream)), order_.record(&free_us(stream)));
  }
  device::EventPtr record_timed(StreamKind stream) override { return record(stream); }
  void wait(StreamKind stream, const device::EventPtr& event) override {
    const auto& [at, point] = static_cast<const Mark&>(*event).where;
    if (order_.is_ordered_after(&free_us(stream), point)) return;
    ++calls.waits;
    order_.note_wait(&free_us(stream), point);
    if (stream != StreamKind::compute) {
      free_us(stream) = std::max(free_us(stream), at);
    } else if (at > now_us) {
      stalled_us += at - now_us;
      now_us = at;
    }
  }
  void synchronize() override { now_us = std::max({now_us, free_us(StreamKind::out), free_us(StreamKind::in)}); }

  device::AllocatorStats memory() const override {
    ++const_cast<SimulatedDevice*>(this)->memory_calls;
    return use;
  }
  int64_t used_bytes() const override { return 0; }
  int64_t unmanaged_bytes() const override { return 0; }
  void reset_peak() override { use.peak_allocated = use.allocated; }
  void set_cap(int64_t) override {}
  void empty_cache() override {}

  device::AllocatorStats use{0, int64_t{1} << 40, 0, 0};

 private:
  struct Mark final : device::StreamEvent {
    struct Where {
      double us;
      device::RedundantStreamWaitFilter::Point point;
    };
    Mark(SimulatedDevice& device, double us, device::RedundantStreamWaitFilter::Point point)
        : device(device), where{us, point} {}
    bool done() const override {
      ++device.calls.queries;
      return device.now_us >= where.us;
    }
    void synchronize() override { device.now_us = std::max(device.now_us, where.us); }
    bool implies(const StreamEvent& other) const override {
      return where.point.implies(static_cast<const Mark&>(other).where.point);
    }
    double ms_since(const StreamEvent& earlier) const override {
      return (where.us - static_cast<const Mark&>(earlier).where.us) / 1e3;
    }
    SimulatedDevice& device;
    Where where;
  };

  double& free_us(StreamKind stream) { return free_us_[static_cast<size_t>(stream)]; }
  void run(int64_t bytes, StreamKind stream) {
    double& free = free_us(stream);
    free = std::max(free, now_us) + static_cast<double>(bytes) / bytes_a_us_;
  }

  double bytes_a_us_;
  device::RedundantStreamWaitFilter order_;
  double free_us_[3] = {0, 0, 0};
};

}  // namespace memtune::tests
