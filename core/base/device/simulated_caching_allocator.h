// Simulates PyTorch's caching allocator: which free block a request gets, and how much larger than the request that
// block is. The bytes of a step depend on it. For a request of 49 MiB a segment of 50 MiB is not split, but a free
// block of 196 MiB is.
//
// It follows c10/cuda/CUDACachingAllocator.cpp with default settings, or with expandable_segments. A request takes the
// smallest free block that is large enough, at the lowest address. The block is split if more than 1 MiB would be left.
// Free neighbours are merged. If no block fits, a new segment is allocated, of 20 MiB for requests below 10 MiB.
// Requests up to 1 MiB get blocks of their own size, which are not tracked. Where a new segment would exceed the cap,
// all segments that are free as a whole are released first. With expandable_segments these are all pages of 20 MiB that
// are free as a whole; later requests map pages anew, the lowest addresses first.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace memtune::device {

class SimulatedCachingAllocator {
 public:
  static constexpr int64_t kSmallSize = 1 << 20;
  struct Block {
    int64_t bytes = 0;  // allocated
    int piece = kNone;
    bool tracked() const { return piece != kNone; }  // a large one, which reserved_bytes() counts
  };

  // 1: a device without such an allocator, where each block has the requested size.
  explicit SimulatedCachingAllocator(int64_t grain_bytes) : grain_bytes_(grain_bytes) {}

  Block take(int64_t bytes);
  void deallocate(const Block& block);
  void pass(int64_t bytes);                                                         // takes a block and gives it back
  int64_t reserved_bytes() const { return static_cast<int64_t>(reserved_bytes_); }  // in segments of large blocks

  // One segment that grows, as with expandable_segments. Has to be called before the first block is taken.
  void expand_segments() { expandable_ = true; }

  // Returns what is free as a whole, and forgets shortage_bytes().
  void begin_again();

  // Limits reserved_bytes() from now on; 0: no limit. A segment that does not fit is allocated nevertheless.
  void set_cap(int64_t bytes) { cap_bytes_ = bytes; }
  // By how much the cap was exceeded at most; 0: it was kept. With expandable_segments, before pages were released,
  // which takes time.
  int64_t shortage_bytes() const { return shortage_bytes_; }
  // The same after all that is free was released, where PyTorch gives up; never forgotten.
  int64_t lasting_shortage_bytes() const { return lasting_shortage_bytes_; }
  int64_t peak_reserved_bytes() const { return peak_reserved_bytes_; }
  void reset_peak() { peak_reserved_bytes_ = reserved_bytes(); }

 private:
  static constexpr int kNone = -1;

  // Part of a segment; neighbours are linked. An unmapped one has addresses, but no memory.
  struct Piece {
    uint64_t address = 0;
    int64_t bytes = 0;
    int before = kNone, behind = kNone;
    bool is_free = false, is_unmapped = false;
  };
  struct Free {
    int64_t bytes = 0;
    uint64_t address = 0;
    int piece = kNone;
    auto operator<=>(const Free& other) const = default;
  };

  int take_free(int64_t bytes);
  int64_t bytes_with_room_behind(int piece) const;
  int grow(int64_t bytes);
  int grow_from(int piece, int64_t bytes);
  int first_with_room(int64_t bytes) const;
  void map(int piece, int64_t bytes);
  void extend_last(int64_t bytes);
  void release_free_pages();
  void unmap(int piece);
  static int64_t segment_bytes(int64_t bytes);
  void note_growth(int64_t bytes);
  int take_segment(int64_t bytes);
  void release_free_segments();
  void cut(int piece, int64_t bytes);
  bool joins(int piece, int neighbour) const;
  void join(int piece, int behind);
  int new_piece(const Piece& piece);
  void insert(int piece);
  void erase(int piece);
  Free key(int piece) const { return {pieces_[piece].bytes, pieces_[piece].address, piece}; }

  const int64_t grain_bytes_;
  bool expandable_ = false;
  int last_ = kNone;           // piece at the end of the segment that grows; mapped
  std::vector<int> unmapped_;  // by address
  std::vector<Piece> pieces_;
  std::vector<int> unused_;                         // numbers of merged pieces
  std::vector<Free> free_;                          // sorted
  uint64_t next_address_ = 0, reserved_bytes_ = 0;  // may wrap around, since files may contain any size
  int64_t cap_bytes_ = 0, shortage_bytes_ = 0, lasting_shortage_bytes_ = 0, peak_reserved_bytes_ = 0;
};

}  // namespace memtune::device
