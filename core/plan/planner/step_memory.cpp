#include "core/plan/planner/step_memory.h"

#include <utility>

namespace memtune::planner {
namespace {

constexpr size_t kMostBeside = 512;  // blocks of unmodelled memory that are tracked

}  // namespace

StepMemory::StepMemory(const std::vector<int64_t>& storage_bytes, BlockCache& cache) : cache_(cache) {
  for (const int64_t bytes : storage_bytes) blocks_.push_back({.asked_bytes = bytes});
}

StepMemory::~StepMemory() {
  for (const Block& block : blocks_)
    if (block.references > 0) cache_.give_back(block.place);
  for (const BlockCache::Block& block : beside_) cache_.give_back(block);
}

// Only sums were recorded. Memory that appears at one moment is one block. Memory that disappears is the newest block
// of that size, else parts of the largest blocks.
void StepMemory::place_beside() {
  int64_t less = std::exchange(placed_bytes_, beside_bytes_) - beside_bytes_;
  if (less < 0) {
    if (beside_.size() < kMostBeside) beside_.push_back(cache_.take(-less));
    return;
  }
  const auto of_that_size = [&](const BlockCache::Block& block) {
    return block.bytes >= less && block.bytes - less <= BlockCache::kSmallSize;
  };
  if (const auto found = std::ranges::find_if(beside_.rbegin(), beside_.rend(), of_that_size);
      found != beside_.rend()) {
    cache_.give_back(*found);
    beside_.erase(std::prev(found.base()));
    return;
  }
  while (less > 0 && !beside_.empty()) {
    const auto largest = std::ranges::max_element(beside_, {}, &BlockCache::Block::bytes);
    const int64_t bytes = largest->bytes;
    cache_.give_back(*largest);
    beside_.erase(largest);
    if (bytes - less > BlockCache::kSmallSize) beside_.push_back(cache_.take(bytes - less));
    less -= bytes;
  }
}

}  // namespace memtune::planner
