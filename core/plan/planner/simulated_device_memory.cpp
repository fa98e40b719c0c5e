#include "core/plan/planner/simulated_device_memory.h"

#include <utility>

namespace memtune::planner {
namespace {

constexpr size_t kMaxUnmodelled = 512;  // blocks of unmodelled memory that are tracked

}  // namespace

SimulatedDeviceMemory::SimulatedDeviceMemory(const std::vector<int64_t>& storage_bytes,
                                             SimulatedCachingAllocator& cache)
    : cache_(cache) {
  for (const int64_t bytes : storage_bytes) blocks_.push_back({.asked_bytes = bytes});
}

SimulatedDeviceMemory::~SimulatedDeviceMemory() {
  for (const Block& block : blocks_)
    if (block.references > 0) cache_.deallocate(block.place);
  for (const SimulatedCachingAllocator::Block& block : unmodelled_) cache_.deallocate(block);
}

// Only sums were recorded. Memory that appears at one moment is one block. Memory that disappears is the newest block
// of that size, else parts of the largest blocks.
void SimulatedDeviceMemory::place_unmodelled() {
  int64_t less = std::exchange(placed_bytes_, unmodelled_bytes_) - unmodelled_bytes_;
  if (less < 0) {
    if (unmodelled_.size() < kMaxUnmodelled) unmodelled_.push_back(cache_.take(-less));
    return;
  }
  const auto of_that_size = [&](const SimulatedCachingAllocator::Block& block) {
    return block.bytes >= less && block.bytes - less <= SimulatedCachingAllocator::kSmallSize;
  };
  if (const auto found = std::ranges::find_if(unmodelled_.rbegin(), unmodelled_.rend(), of_that_size);
      found != unmodelled_.rend()) {
    cache_.deallocate(*found);
    unmodelled_.erase(std::prev(found.base()));
    return;
  }
  while (less > 0 && !unmodelled_.empty()) {
    const auto largest = std::ranges::max_element(unmodelled_, {}, &SimulatedCachingAllocator::Block::bytes);
    const int64_t bytes = largest->bytes;
    cache_.deallocate(*largest);
    unmodelled_.erase(largest);
    if (bytes - less > SimulatedCachingAllocator::kSmallSize) unmodelled_.push_back(cache_.take(bytes - less));
    less -= bytes;
  }
}

}  // namespace memtune::planner
