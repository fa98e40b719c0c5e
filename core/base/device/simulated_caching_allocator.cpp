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

int SimulatedCachingAllocator::take_free(int64_t bytes) {
  auto found = std::lower_bound(free_.begin(), free_.end(), Free{.bytes = bytes});
  if (found == free_.end()) return kNone;
  if (expandable_)
    for (auto next = std::next(found); next != free_.end(); found = next++)
      if (bytes_with_room_behind(next->piece) >= bytes_with_room_behind(found->piece)) break;
  const int piece = found->piece;
  free_.erase(found);
  pieces_[piece].is_free = false;
  return piece;
}

// Unmapped addresses behind a piece are kept for larger requests. Those behind the last one have no end.
int64_t SimulatedCachingAllocator::bytes_with_room_behind(int piece) const {
  if (piece == last_) return std::numeric_limits<int64_t>::max();
  const int behind = pieces_[piece].behind;
  const bool has_room = behind != kNone && pieces_[behind].is_unmapped;
  return has_room ? bounded_sum(pieces_[piece].bytes, pieces_[behind].bytes) : pieces_[piece].bytes;
}

int64_t SimulatedCachingAllocator::segment_bytes(int64_t bytes) {
  return bytes < kMinLargeAlloc ? kLargeBuffer : round_up(bytes, kRoundLarge);
}

void SimulatedCachingAllocator::note_growth(int64_t bytes) {
  reserved_bytes_ += static_cast<uint64_t>(bytes);
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, reserved_bytes());
}

// PyTorch compares the whole request with the cap, not only the part that is not mapped.
int SimulatedCachingAllocator::grow(int64_t bytes) {
  if (cap_bytes_ > 0) {
    const auto short_bytes = [&] { return bounded_sum(reserved_bytes(), segment_bytes(bytes)) - cap_bytes_; };
    shortage_bytes_ = std::max(shortage_bytes_, short_bytes());
    if (short_bytes() > 0) {
      release_free_pages();
      lasting_shortage_bytes_ = std::max(lasting_shortage_bytes_, short_bytes());
    }
  }
  if (const int first = first_with_room(bytes); first != kNone) return grow_from(first, bytes);
  if (last_ != kNone && pieces_[last_].is_free) return grow_from(last_, bytes);
  const int before = last_;
  last_ = new_piece({.address = next_address_, .before = before});
  if (before != kNone) pieces_[before].behind = last_;
  extend_last(bytes);
  return last_;
}

// The first piece of unmapped and free ones, of which an unmapped one is the first or behind the first, that together
// have room for the request.
int SimulatedCachingAllocator::first_with_room(int64_t bytes) const {
  for (const int unmapped : unmapped_) {
    const int before = pieces_[unmapped].before;
    const int first = before != kNone && pieces_[before].is_free ? before : unmapped;
    int64_t room = 0;
    for (int piece = first; pieces_[piece].is_free || pieces_[piece].is_unmapped; piece = pieces_[piece].behind) {
      room = bounded_sum(room, pieces_[piece].bytes);
      if (room >= bytes || piece == last_) return first;
    }
  }
  return kNone;
}

// Merges pieces from this one on, which are free or unmapped, and maps them until they have the bytes.
int SimulatedCachingAllocator::grow_from(int piece, int64_t bytes) {
  if (pieces_[piece].is_unmapped)
    map(piece, bytes);
  else
    erase(piece);
  while (pieces_[piece].bytes < bytes) {
    const int64_t more = bytes - pieces_[piece].bytes;
    if (piece == last_) {
      extend_last(more);
      break;
    }
    const int behind = pieces_[piece].behind;
    if (pieces_[behind].is_unmapped) map(behind, more);
    join(piece, behind);
  }
  return piece;
}

// Maps the first pages of an unmapped piece, which begins and ends with a page.
void SimulatedCachingAllocator::map(int piece, int64_t bytes) {
  const Piece whole = pieces_[piece];
  const int64_t mapped = std::min(whole.bytes, round_up(bytes, kLargeBuffer));
  const auto found = std::ranges::find(unmapped_, piece);
  if (mapped < whole.bytes) {
    const int rest = new_piece({.address = whole.address + static_cast<uint64_t>(mapped),
                                .bytes = whole.bytes - mapped,
                                .before = piece,
                                .behind = whole.behind,
                                .is_unmapped = true});
    pieces_[whole.behind].before = rest;
    pieces_[piece].behind = rest;
    *found = rest;
  } else {
    unmapped_.erase(found);
  }
  pieces_[piece].bytes = mapped;
  pieces_[piece].is_unmapped = false;
  note_growth(mapped);
}

void SimulatedCachingAllocator::extend_last(int64_t bytes) {
  const int64_t more = round_up(bytes, kLargeBuffer);
  pieces_[last_].bytes += more;
  next_address_ += static_cast<uint64_t>(more);
  note_growth(more);
}

void SimulatedCachingAllocator::release_free_pages() {
  constexpr auto kPage = static_cast<uint64_t>(kLargeBuffer);
  for (const Free& free : std::vector<Free>(free_)) {
    const uint64_t begin = free.address, end = begin + static_cast<uint64_t>(free.bytes);
    const uint64_t first = (begin + kPage - 1) / kPage * kPage, behind = end / kPage * kPage;
    if (first >= behind || end < begin) continue;
    int piece = free.piece;
    erase(piece);
    if (first > begin) {
      cut(piece, static_cast<int64_t>(first - begin));
      insert(piece);
      piece = pieces_[piece].behind;
      erase(piece);
    }
    if (end > behind) cut(piece, static_cast<int64_t>(behind - first));
    unmap(piece);
  }
}

// A segment has no unmapped pieces at its end.
void SimulatedCachingAllocator::unmap(int piece) {
  reserved_bytes_ -= static_cast<uint64_t>(pieces_[piece].bytes);
  pieces_[piece].is_unmapped = true;
  const int before = pieces_[piece].before, behind = pieces_[piece].behind;
  if (behind != kNone && pieces_[behind].is_unmapped) {
    std::erase(unmapped_, behind);
    join(piece, behind);
  }
  if (before != kNone && pieces_[before].is_unmapped)
    join(before, piece);
  else
    unmapped_.insert(std::ranges::lower_bound(unmapped_, pieces_[piece].address, {},
                                              [this](int other) { return pieces_[other].address; }),
                     piece);
  if (last_ == kNone || !pieces_[last_].is_unmapped) return;
  next_address_ = pieces_[last_].address;
  std::erase(unmapped_, last_);
  unused_.push_back(last_);
  last_ = pieces_[last_].before;
  if (last_ != kNone) pieces_[last_].behind = kNone;
}

int SimulatedCachingAllocator::take_segment(int64_t bytes) {
  const int64_t segment = segment_bytes(bytes);
  if (cap_bytes_ > 0 && reserved_bytes() > cap_bytes_ - segment) {
    release_free_segments();
    shortage_bytes_ = std::max(shortage_bytes_, bounded_sum(reserved_bytes(), segment) - cap_bytes_);
    lasting_shortage_bytes_ = std::max(lasting_shortage_bytes_, shortage_bytes_);
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
    return true;
  });
}

void SimulatedCachingAllocator::begin_again() {
  if (expandable_)
    release_free_pages();
  else
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
  if (joins(rest, whole.behind)) join(rest, whole.behind);
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
