// Device memory of a simulated step: memory blocks of the modelled values, each for as long as it has references, and
// the unmodelled memory of each moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/base/bounds.h"
#include "core/base/device/simulated_caching_allocator.h"

namespace memtune::planner {

using device::SimulatedCachingAllocator;

class SimulatedDeviceMemory {
 public:
  static constexpr int kNone = -1;

  // The first blocks are the recorded storages, without references so far. `cache` must outlive it; the destructor
  // returns all blocks that are still held.
  SimulatedDeviceMemory(const std::vector<int64_t>& storage_bytes, SimulatedCachingAllocator& cache);
  ~SimulatedDeviceMemory();
  SimulatedDeviceMemory(const SimulatedDeviceMemory&) = delete;
  SimulatedDeviceMemory& operator=(const SimulatedDeviceMemory&) = delete;

  int make(int64_t bytes) {  // with one reference
    blocks_.push_back({.asked_bytes = bytes});
    return take(static_cast<int>(blocks_.size()) - 1);
  }
  int take(int block) {
    if (blocks_[block].references++ == 0) {
      blocks_[block].place = cache_.take(blocks_[block].asked_bytes);
      held_bytes_ = bounded_sum(held_bytes_, blocks_[block].place.bytes);
    }
    return block;
  }
  void drop(int block) {
    if (block == kNone || --blocks_[block].references != 0) return;
    held_bytes_ -= blocks_[block].place.bytes;
    cache_.deallocate(blocks_[block].place);
  }
  bool alive(int block) const { return blocks_[block].references > 0; }
  int64_t held_bytes() const { return held_bytes_; }

  // Sets the unmodelled bytes: begin() when the step begins, without a block of the cache for them; set_unmodelled()
  // later.
  void begin(int64_t unmodelled_bytes) { unmodelled_bytes_ = placed_bytes_ = unmodelled_bytes; }
  void set_unmodelled(int64_t bytes) {
    unmodelled_bytes_ = bytes;
    if (std::abs(bytes - placed_bytes_) > SimulatedCachingAllocator::kSmallSize) place_unmodelled();
  }
  int64_t allocated() const { return unmodelled_bytes_ + held_bytes_; }
  // Records a peak of `bytes` above what is allocated now.
  void update_peak(int64_t bytes = 0) { interval_peak_ = std::max(interval_peak_, allocated() + bytes); }
  // Takes a block of this size from the cache and returns it.
  void pass(int64_t bytes) { cache_.pass(bytes); }
  int64_t interval_peak() const { return interval_peak_; }  // since begin_interval()
  void begin_interval() {
    peak_ = std::max(peak_, interval_peak_);
    interval_peak_ = allocated();
  }
  int64_t peak() const { return std::max(peak_, interval_peak_); }

 private:
  struct Block {
    int64_t asked_bytes = 0;
    int references = 0;
    SimulatedCachingAllocator::Block place = {};
  };

  void place_unmodelled();

  SimulatedCachingAllocator& cache_;
  std::vector<Block> blocks_;
  std::vector<SimulatedCachingAllocator::Block> unmodelled_;  // blocks of unmodelled memory since the step began
  int64_t held_bytes_ = 0, unmodelled_bytes_ = 0, placed_bytes_ = 0;
  int64_t interval_peak_ = 0, peak_ = 0;
};

}  // namespace memtune::planner
