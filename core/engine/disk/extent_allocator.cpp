#include "core/engine/disk/extent_allocator.h"

#include <algorithm>
#include <iterator>

namespace memtune::disk {

std::optional<int64_t> ExtentAllocator::take(int64_t bytes) {
  std::lock_guard lock(mutex_);
  auto hole = std::ranges::find_if(holes_, [bytes](const auto& hole) { return hole.second >= bytes; });
  if (hole == holes_.end()) return std::nullopt;
  const auto [offset, size] = *hole;
  holes_.erase(hole);
  if (size > bytes) holes_.emplace(offset + bytes, size - bytes);
  used_ += bytes;
  return offset;
}

void ExtentAllocator::deallocate(int64_t offset, int64_t bytes) {
  std::lock_guard lock(mutex_);
  used_ -= bytes;
  insert(offset, bytes);
}

void ExtentAllocator::grow(int64_t end) {
  std::lock_guard lock(mutex_);
  if (end <= end_) return;
  insert(end_, end - end_);
  end_ = end;
}

int64_t ExtentAllocator::missing(int64_t bytes) const {
  std::lock_guard lock(mutex_);
  if (holes_.empty()) return bytes;
  const auto [offset, size] = *holes_.rbegin();
  return offset + size == end_ ? std::max<int64_t>(0, bytes - size) : bytes;
}

// Merges adjacent holes.
void ExtentAllocator::insert(int64_t offset, int64_t bytes) {
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  holes_.emplace_hint(next, offset, bytes);
}

int64_t ExtentAllocator::end() const {
  std::lock_guard lock(mutex_);
  return end_;
}

int64_t ExtentAllocator::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace memtune::disk
