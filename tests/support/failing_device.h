// A device on which one call, or every call from one on, fails. After a permanent failure it runs nothing, like a GPU
// after an illegal memory access.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "tests/support/queue_device.h"

namespace memtune::tests {

class FailingDevice final : public device::Device {
 public:
  using StreamKind = device::StreamKind;
  // `failing`: number of the failing call, from 1; 0: none fails.
  FailingDevice(int failing, bool for_good) : failing_(failing), for_good_(for_good) {}

  int calls() const { return calls_; }
  int slabs() const { return slabs_; }                                                   // not freed yet
  bool copies() { return !real_.done(StreamKind::out) || !real_.done(StreamKind::in); }  // running

  Type type() const override { return Type::cpu; }
  std::string name() const override { return "failing"; }
  int64_t total_bytes() const override { return real_.total_bytes(); }
  std::unique_ptr<device::HostBuffer> allocate_host(int64_t bytes, bool pinned) override {
    if (fails()) throw OutOfHostMemoryError("call " + std::to_string(calls_) + " was refused");
    return std::make_unique<Slab>(*this, real_.allocate_host(bytes, pinned));
  }
  void copy(void* to, const void* from, int64_t bytes, device::CopyDirection direction, StreamKind stream) override {
    call();
    real_.copy(to, from, bytes, direction, stream);
  }
  void copy_batch(std::span<const Copy> copies, device::CopyDirection direction, StreamKind stream) override {
    call();
    real_.copy_batch(copies, direction, stream);
  }
  device::EventPtr record(StreamKind stream) override {
    call();
    return std::make_shared<Mark>(*this, real_.record(stream));
  }
  device::EventPtr record_timed(StreamKind stream) override { return record(stream); }
  void wait(StreamKind stream, const device::EventPtr& event) override {
    call();
    real_.wait(stream, static_cast<const Mark&>(*event).real);
  }
  void synchronize() override {
    call();
    real_.synchronize();
  }
  device::AllocatorStats memory() const override { return real_.memory(); }
  int64_t used_bytes() const override { return real_.used_bytes(); }
  int64_t unmanaged_bytes() const override { return real_.unmanaged_bytes(); }
  void reset_peak() override { real_.reset_peak(); }
  void set_cap(int64_t bytes) override { real_.set_cap(bytes); }
  void empty_cache() override { real_.empty_cache(); }

 private:
  struct Mark final : device::StreamEvent {
    Mark(FailingDevice& device, device::EventPtr real) : device(device), real(std::move(real)) {}
    bool done() const override {
      device.call();
      return real->done();
    }
    void synchronize() override {
      device.call();
      real->synchronize();
    }
    bool implies(const StreamEvent& other) const override {
      return real->implies(*static_cast<const Mark&>(other).real);
    }
    double ms_since(const StreamEvent& earlier) const override {
      return real->ms_since(*static_cast<const Mark&>(earlier).real);
    }
    FailingDevice& device;
    device::EventPtr real;
  };
  struct Slab final : device::HostBuffer {
    Slab(FailingDevice& device, std::unique_ptr<device::HostBuffer> real) : device(device), real(std::move(real)) {
      ++device.slabs_;
    }
    ~Slab() override { --device.slabs_; }
    char* data() override { return real->data(); }
    int64_t bytes() const override { return real->bytes(); }
    FailingDevice& device;
    std::unique_ptr<device::HostBuffer> real;
  };

  bool fails() {
    const int number = ++calls_;
    return failing_ > 0 && (number == failing_ || (for_good_ && number > failing_));
  }
  void call() {
    if (fails()) throw DeviceError("call " + std::to_string(calls_) + " failed");
  }

  QueueDevice real_{QueueDevice::Compute::caller};
  const int failing_;
  const bool for_good_;
  std::atomic<int> calls_{0};  // threads of the disk wait for events too
  std::atomic<int> slabs_{0};
};

}  // namespace memtune::tests
