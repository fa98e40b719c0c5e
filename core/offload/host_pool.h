// Host memory, page-locked as a rule, in slabs, sub-allocated: taking a lease costs no system call once the pool has
// grown.
//
// A lease that comes back may still be read or written by copies in flight: it carries the event behind which its bytes
// are free, and whoever gets those bytes next receives the events to wait for. Thread: the one that trains.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "core/device/device.h"

namespace memtune::offload {

class HostPool {
 public:
  // `slab_bytes`: how much is taken from the system at once, at least; `budget_bytes`: in all, at most (0: no limit).
  HostPool(device::Device& device, int64_t slab_bytes, int64_t budget_bytes = 0, bool pinned = true)
      : device_(device), slab_bytes_(slab_bytes), budget_bytes_(budget_bytes), pinned_(pinned) {}

  struct Lease {
    char* data = nullptr;
    int64_t bytes = 0;                         // as taken, rounded up
    std::vector<device::EventPtr> free_after;  // copies of former holders that may still be running
  };

  // Best fit; grows by a slab when nothing fits. Empty when the budget has no room; throws OutOfHostMemory when the
  // system refuses.
  std::optional<Lease> try_take(int64_t bytes);
  // `last_use`: behind it nothing touches the bytes any more; null when nothing does already.
  void give_back(const Lease& lease, device::EventPtr last_use);

  // In the order in which they were taken; there is never one less.
  const std::vector<std::unique_ptr<device::HostSlab>>& slabs() const { return slabs_; }
  int64_t leased_bytes() const { return leased_; }
  int64_t reserved_bytes() const { return reserved_; }
  int64_t peak_leased_bytes() const { return peak_leased_; }

 private:
  struct Range {
    char* begin;
    int64_t bytes;
    std::vector<device::EventPtr> free_after;
  };
  bool grow(int64_t bytes);
  void insert(Range range);

  device::Device& device_;
  int64_t slab_bytes_, budget_bytes_;
  bool pinned_;
  std::vector<std::unique_ptr<device::HostSlab>> slabs_;
  std::list<Range> free_;  // by address
  int64_t leased_ = 0, peak_leased_ = 0, reserved_ = 0;
};

}  // namespace memtune::offload
