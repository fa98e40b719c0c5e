// Pool of host memory, page-locked by default, allocated in slabs and sub-allocated. Once the pool has grown, taking a
// lease costs no system call.
//
// Copies may still read or write the bytes of a lease when its owner returns it. The pool keeps the events of these
// copies and passes them to the next owner, who waits for them. Thread: the training thread.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/device/device.h"

namespace memtune::tier {

class HostMemoryPool {
  struct Range {
    char* begin = nullptr;
    int64_t bytes = 0;
    std::vector<device::EventPtr> free_after;
  };

 public:
  // `slab_bytes`: least size of one allocation from the system, unless the budget has less left. `budget_bytes`: limit
  // of all slabs; 0: none. `power_of_two`: each lease is a slab of its own, rounded up to a power of two and reused for
  // that size only.
  HostMemoryPool(device::Device& device, int64_t slab_bytes, int64_t budget_bytes = 0, bool pinned = true,
                 bool power_of_two = false)
      : device_(device),
        slab_bytes_(slab_bytes),
        budget_bytes_(budget_bytes),
        pinned_(pinned),
        power_of_two_(power_of_two) {}
  HostMemoryPool(const HostMemoryPool&) = delete;
  HostMemoryPool& operator=(const HostMemoryPool&) = delete;

  void set_budget(int64_t bytes) { budget_bytes_ = bytes; }

  // Bytes of the pool; the destructor returns them. Must not outlive the pool.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    explicit operator bool() const { return pool_ != nullptr; }
    char* data() const { return range_.begin; }
    int64_t bytes() const { return range_.bytes; }  // rounded up from the requested size
    // The bytes are free after these events. A new lease has those of copies of earlier owners: wait for them before
    // you write.
    const std::vector<device::EventPtr>& free_after() const { return range_.free_after; }
    // Replaces the events by `event`, which must come after all of them. Null: the bytes are free at once.
    void set_free_after(device::EventPtr event);

   private:
    friend class HostMemoryPool;
    Lease(HostMemoryPool& pool, Range range) : pool_(&pool), range_(std::move(range)) {}
    HostMemoryPool* pool_ = nullptr;
    Range range_;
  };

  // Best fit; adds a slab when no free range fits. Returns nothing if the budget has no room. Throws
  // OutOfHostMemoryError if the system refuses.
  std::optional<Lease> try_lease(int64_t bytes);

  // In the order of allocation. Slabs live as long as the pool.
  const std::vector<std::unique_ptr<device::HostSlab>>& slabs() const { return slabs_; }
  int64_t leased_bytes() const { return leased_; }
  int64_t reserved_bytes() const { return reserved_; }
  int64_t peak_leased_bytes() const { return peak_leased_; }

 private:
  bool grow(int64_t bytes);
  void deallocate(Range range) noexcept;
  void insert(Range range);

  device::Device& device_;
  int64_t slab_bytes_, budget_bytes_;
  bool pinned_, power_of_two_;
  std::vector<std::unique_ptr<device::HostSlab>> slabs_;
  std::list<Range> free_;  // by address
  int64_t leased_ = 0, peak_leased_ = 0, reserved_ = 0;
};

}  // namespace memtune::tier
