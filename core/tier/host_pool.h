// Host memory, page-locked as a rule, in slabs, sub-allocated: taking a lease costs no system call once the pool has
// grown.
//
// A lease that goes may still be read or written by copies in flight: it knows the events behind which its bytes are
// free, and whoever gets those bytes next receives the events to wait for. Thread: the one that trains.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "core/device/device.h"

namespace memtune::tier {

class HostPool {
  struct Range {
    char* begin = nullptr;
    int64_t bytes = 0;
    std::vector<device::EventPtr> free_after;
  };

 public:
  // `slab_bytes`: how much is taken from the system at once, at least; `budget_bytes`: in all, at most (0: no limit).
  // `power_of_two`: each lease is a slab of its own, of so many bytes, and again of those that want as many.
  HostPool(device::Device& device, int64_t slab_bytes, int64_t budget_bytes = 0, bool pinned = true,
           bool power_of_two = false)
      : device_(device),
        slab_bytes_(slab_bytes),
        budget_bytes_(budget_bytes),
        pinned_(pinned),
        power_of_two_(power_of_two) {}
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  void set_budget(int64_t bytes) { budget_bytes_ = bytes; }

  // Bytes of the pool, its owner's until it goes. Must not outlive the pool.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    explicit operator bool() const { return pool_ != nullptr; }
    char* data() const { return range_.begin; }
    int64_t bytes() const { return range_.bytes; }  // as taken, rounded up
    // Behind these the bytes are free: at first copies of former owners, for which whoever writes here waits.
    const std::vector<device::EventPtr>& free_after() const { return range_.free_after; }
    // From now on behind `event` alone, which comes after all that the owner was given to wait for; null: at once.
    void set_free_after(device::EventPtr event);

   private:
    friend class HostPool;
    Lease(HostPool& pool, Range range) : pool_(&pool), range_(std::move(range)) {}
    HostPool* pool_ = nullptr;
    Range range_;
  };

  // Best fit; grows by a slab when nothing fits. Empty when the budget has no room; throws OutOfHostMemory when the
  // system refuses.
  std::optional<Lease> try_take(int64_t bytes);

  // In the order in which they were taken; there is never one less.
  const std::vector<std::unique_ptr<device::HostSlab>>& slabs() const { return slabs_; }
  int64_t leased_bytes() const { return leased_; }
  int64_t reserved_bytes() const { return reserved_; }
  int64_t peak_leased_bytes() const { return peak_leased_; }

 private:
  bool grow(int64_t bytes);
  void give_back(Range range) noexcept;
  void insert(Range range);

  device::Device& device_;
  int64_t slab_bytes_, budget_bytes_;
  bool pinned_, power_of_two_;
  std::vector<std::unique_ptr<device::HostSlab>> slabs_;
  std::list<Range> free_;  // by address
  int64_t leased_ = 0, peak_leased_ = 0, reserved_ = 0;
};

}  // namespace memtune::tier
