// Pool of host memory, page-locked by default, allocated in slabs and sub-allocated. Once the pool has grown, taking a
// lease costs no system call.
//
// Copies may still read or write the bytes of a lease when its owner returns it. The pool keeps the events of these
// copies and passes them to the next owner, who waits for them. Thread: the training thread.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/device/device.h"
#include "core/plan/schedule/host_slab_best_fit_allocator.h"

namespace memtune::tier {

// Events of the copies after which bytes are free: one per stream, the latest, because asking the driver about every
// event costs more than the copies.
class CopyEventsBeforeHostMemoryReuse {
 public:
  void set(device::EventPtr event);
  void add(CopyEventsBeforeHostMemoryReuse other);
  void forget_done();
  const std::vector<device::EventPtr>& events() const { return events_; }

 private:
  std::vector<device::EventPtr> events_;
};

class HostMemoryPool {
  using Ranges = schedule::HostSlabBestFitAllocator<CopyEventsBeforeHostMemoryReuse>;

 public:
  // See HostSlabBestFitAllocator.
  HostMemoryPool(device::Device& device, int64_t slab_bytes, int64_t budget_bytes = 0, bool pinned = true,
                 bool power_of_two = false)
      : device_(device), pinned_(pinned), ranges_(slab_bytes, budget_bytes, power_of_two) {}
  HostMemoryPool(const HostMemoryPool&) = delete;
  HostMemoryPool& operator=(const HostMemoryPool&) = delete;

  void set_budget(int64_t bytes) { ranges_.set_budget(bytes); }

  // Bytes of the pool; the destructor returns them. Must not outlive the pool.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    explicit operator bool() const { return pool_ != nullptr; }
    char* data() const { return pool_ ? pool_->slabs_[range_.slab]->data() + range_.begin : nullptr; }
    int64_t bytes() const { return range_.bytes; }  // rounded up from the requested size
    // The bytes are free after these events. A new lease has those of copies of earlier owners: wait for them before
    // you write.
    const std::vector<device::EventPtr>& free_after() const { return range_.free_after.events(); }
    // Replaces the events by `event`, which must come after all of them. Null: the bytes are free at once.
    void set_free_after(device::EventPtr event) { range_.free_after.set(std::move(event)); }

   private:
    friend class HostMemoryPool;
    Lease(HostMemoryPool& pool, Ranges::Range range) : pool_(&pool), range_(std::move(range)) {}
    HostMemoryPool* pool_ = nullptr;
    Ranges::Range range_;
  };

  // Returns nothing if the budget has no room. Throws OutOfHostMemoryError if the system refuses.
  std::optional<Lease> try_lease(int64_t bytes);

  // In the order of allocation. Slabs live as long as the pool.
  const std::vector<std::unique_ptr<device::HostBuffer>>& slabs() const { return slabs_; }
  int64_t leased_bytes() const { return ranges_.leased_bytes(); }
  int64_t reserved_bytes() const { return ranges_.reserved_bytes(); }
  int64_t peak_leased_bytes() const { return ranges_.peak_leased_bytes(); }

 private:
  device::Device& device_;
  const bool pinned_;
  std::vector<std::unique_ptr<device::HostBuffer>> slabs_;
  Ranges ranges_;
};

}  // namespace memtune::tier
