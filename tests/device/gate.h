// An event that the test triggers. It holds a stream until open() is called.
#pragma once

#include <condition_variable>
#include <mutex>

#include "core/base/device/device.h"

namespace memtune::testing {

class Gate final : public device::StreamEvent {
 public:
  bool done() const override {
    std::lock_guard lock(mutex_);
    return open_;
  }
  double ms_since(const StreamEvent&) const override { return 0; }
  void synchronize() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    {
      std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace memtune::testing
