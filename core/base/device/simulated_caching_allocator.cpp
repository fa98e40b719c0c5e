#include "core/base/device/simulated_caching_allocator.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/base/bounds.h"
#include "core/base/bytes.h"

namespace memtune::device {
namespace {

constexpr int64_t kMinLargeAlloc = 10 << 20, kLargeBuffer = 20 << 20, kRoundLarge = 2 << 20;

}  // namespace

SimulatedCachingAllocator::Block SimulatedCachingAllocator::take(int64_t bytes) {
  const int64_t asked = round_up(bytes, grain_bytes_);
  if (grain_bytes_ == 1 || asked <= kSmallSize) return {asked};
  int piece = take_free(asked);
  if (piece == kNone) piece = expandable_ ? grow(asked) : take_segment(asked);
  if (pieces_[piece].bytes - asked > (expandable_ ? 0 : kSmallSize)) cut(piece, asked);
  return {pieces_[piece].bytes, piece};
}

// The end of a segment that grows counts as larger than any other piece.
int SimulatedCachingAllocator::take_free(int64_t bytes) {
  auto found = std::lower_bound(free_.begin(), free_.end(), Free{.bytes = bytes});
  if (expandable_ && found != free_.end() && found->piece == last_ && std::next(found) != free_.end()) ++found;
  if (found == free_.end()) return kNone;
  const int piece = found->piece;
  free_.erase(found);
  pieces_[piece].is_free = false;
  return piece;
}

int64_t SimulatedCachingAllocator::segment_bytes(int64_t bytes) {
  return bytes < kMinLargeAlloc ? kLargeBuffer : round_up(bytes, kRoundLarge);
}

void SimulatedCachingAllocator::note_growth(int64_t bytes) {
  reserved_bytes_ += static_cast<uint64_t>(bytes);
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, reserved_bytes());
}

// PyTorch compares the whole request with the cap, not only the part that is missing at the segment's end.
int SimulatedCachingAllocator::grow(int64_t bytes) {
  if (cap_bytes_ > 0)
    shortage_bytes_ = std::max(shortage_bytes_, bounded_sum(reserved_bytes(), segment_bytes(bytes)) - cap_bytes_);
  const bool last_is_free = last_ != kNone && pieces_[last_].is_free;
  const int64_t more = round_up(last_is_free ? bytes - pieces_[last_].bytes : bytes, kLargeBuffer);
  note_growth(more);
  if (last_is_free) {
    erase(last_);
    pieces_[last_].bytes += more;
  } else {
    const int before = last_;
    last_ = new_piece({.address = next_address_, .bytes = more, .before = before});
    if (before != kNone) pieces_[before].behind = last_;
  }
  next_address_ += static_cast<uint64_t>(more);
  return last_;
}

int SimulatedCachingAllocator::take_segment(int64_t bytes) {
  const int64_t segment = segment_bytes(bytes);
  if (cap_bytes_ > 0 && reserved_bytes() > cap_bytes_ - segment) {
    release_free_segments();
    shortage_bytes_ = std::max(shortage_bytes_, bounded_sum(reserved_bytes(), segment) - cap_bytes_);
  }
  const int piece = new_piece({.address = next_address_, .bytes = segment});
  next_address_ += static_cast<uint64_t>(segment);
  note_growth(segment);
  return piece;
}

void SimulatedCachingAllocator::release_free_segments() {
  std::erase_if(free_, [this](const Free& free) {
    const Piece& piece = pieces_[free.piece];
    if (piece.before != kNone || piece.behind != kNone) return false;
    reserved_bytes_ -= static_cast<uint64_t>(piece.bytes);
    unused_.push_back(free.piece);
    if (free.piece == last_) last_ = kNone;
    return true;
  });
}

void SimulatedCachingAllocator::begin_again() {
  release_free_segments();
  shortage_bytes_ = 0;
}

void SimulatedCachingAllocator::cut(int piece, int64_t bytes) {
  const Piece whole = pieces_[piece];
  const int rest = new_piece({whole.address + static_cast<uint64_t>(bytes), whole.bytes - bytes, piece, whole.behind});
  if (whole.behind != kNone) pieces_[whole.behind].before = rest;
  pieces_[piece].bytes = bytes;
  pieces_[piece].behind = rest;
  if (piece == last_) last_ = rest;
  insert(rest);
}

void SimulatedCachingAllocator::deallocate(const Block& block) {
  if (block.piece == kNone) return;
  int piece = block.piece;
  if (const int behind = pieces_[piece].behind; joins(piece, behind)) join(piece, behind);
  if (const int before = pieces_[piece].before; joins(piece, before)) {
    erase(before);
    join(before, piece);
    piece = before;
  }
  insert(piece);
}

// Taking and returning a free block that is large enough changes nothing.
void SimulatedCachingAllocator::pass(int64_t bytes) {
  if (grain_bytes_ == 1 || bytes <= kSmallSize) return;
  if (free_.empty() || free_.back().bytes < round_up(bytes, grain_bytes_)) deallocate(take(bytes));
}

// Files may contain sizes whose sum is no number of bytes.
bool SimulatedCachingAllocator::joins(int piece, int neighbour) const {
  return neighbour != kNone && pieces_[neighbour].is_free &&
         pieces_[piece].bytes <= std::numeric_limits<int64_t>::max() - pieces_[neighbour].bytes;
}

// Merges `behind` into `piece`; its number is reused.
void SimulatedCachingAllocator::join(int piece, int behind) {
  if (pieces_[behind].is_free) erase(behind);
  pieces_[piece].bytes += pieces_[behind].bytes;
  pieces_[piece].behind = pieces_[behind].behind;
  if (behind == last_) last_ = piece;
  if (pieces_[piece].behind != kNone) pieces_[pieces_[piece].behind].before = piece;
  unused_.push_back(behind);
}

int SimulatedCachingAllocator::new_piece(const Piece& piece) {
  if (unused_.empty()) {
    pieces_.push_back(piece);
    return static_cast<int>(pieces_.size()) - 1;
  }
  const int number = unused_.back();
  unused_.pop_back();
  pieces_[number] = piece;
  return number;
}

void SimulatedCachingAllocator::insert(int piece) {
  pieces_[piece].is_free = true;
  free_.insert(std::lower_bound(free_.begin(), free_.end(), key(piece)), key(piece));
}

void SimulatedCachingAllocator::erase(int piece) {
  pieces_[piece].is_free = false;
  free_.erase(std::lower_bound(free_.begin(), free_.end(), key(piece)));
}

}  // namespace memtune::device
