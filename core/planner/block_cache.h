// PyTorch's caching allocator on paper: which of the blocks that were given back a size gets, and how much larger than
// that the block is. What a step holds depends on it: a segment of 50 MiB that 49 were asked of is not cut, while 49 of
// a free block of 196 are.
//
// As in c10/cuda/CUDACachingAllocator.cpp, with its settings as they are: the smallest free block that is large enough,
// at the lowest address, is cut where more than 1 MiB would be left; neighbours that are free become one; what finds no
// block takes a segment of its own from the device, 20 MiB for less than 10. Up to 1 MiB all that is left is cut off,
// so that those blocks are as asked and need not be known.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace memtune::planner {

class BlockCache {
 public:
  static constexpr int64_t kSmallSize = 1 << 20;
  struct Block {
    int64_t bytes = 0;  // allocated
    int piece = kNone;
  };

  // 1: a device without such an allocator, whose blocks are as asked.
  explicit BlockCache(int64_t grain_bytes) : grain_bytes_(grain_bytes) {}

  Block take(int64_t bytes);
  void give_back(const Block& block);
  void pass(int64_t bytes);                                                         // taken and given back
  int64_t reserved_bytes() const { return static_cast<int64_t>(reserved_bytes_); }  // in segments of large blocks

 private:
  static constexpr int kNone = -1;

  // Of a segment, whose pieces are each other's neighbours.
  struct Piece {
    uint64_t address = 0;
    int64_t bytes = 0;
    int before = kNone, behind = kNone;
    bool is_free = false;
  };
  struct Free {
    int64_t bytes = 0;
    uint64_t address = 0;
    int piece = kNone;
    auto operator<=>(const Free& other) const = default;
  };

  int take_segment(int64_t bytes);
  void cut(int piece, int64_t bytes);
  void join(int piece, int behind);
  int new_piece(const Piece& piece);
  void insert(int piece);
  void erase(int piece);
  Free key(int piece) const { return {pieces_[piece].bytes, pieces_[piece].address, piece}; }

  const int64_t grain_bytes_;
  std::vector<Piece> pieces_;
  std::vector<int> unused_;                         // numbers of pieces that were joined
  std::vector<Free> free_;                          // in order
  uint64_t next_address_ = 0, reserved_bytes_ = 0;  // may come round, whatever a file says of sizes
};

}  // namespace memtune::planner
