// How large a number may be that memtune reads, from whatever file, stream or command line: readers refuse more and
// name the field, so that sums and products of a few fields fit an int64, and quotients a double. Numbers that are
// summed over a table are bounded as a whole too, by a BoundedSum; what a simulation counts stops at kMostSum.
#pragma once

#include <algorithm>
#include <cstdint>

namespace memtune {

inline constexpr int64_t kMostCount = int64_t{1} << 53;  // what has no bound of its own: a double holds it exactly
inline constexpr int64_t kMostBytes = int64_t{1} << 50;  // 1 PiB, a file's or a table's all together
inline constexpr double kMostNumber = 1e60;              // losses of float32 and their squares are below
inline constexpr double kLeastNumber = 1e-60;            // what is nearer to 0 is read as 0
inline constexpr double kMostFigure = 1e15;              // times in ms, rates, ratios

// Sizes that a file gives one by one.
class BoundedSum {
 public:
  explicit BoundedSum(int64_t most = kMostBytes) : most_(most) {}
  // False: with this one they are more than `most`, or it is negative; it is not added then.
  bool add(int64_t size) {
    if (size < 0 || size > most_ - sum_) return false;
    sum_ += size;
    return true;
  }

 private:
  int64_t most_, sum_ = 0;
};

inline constexpr int64_t kMostSum = int64_t{1} << 61;

// Of numbers from 0 to kMostSum.
inline int64_t bounded_sum(int64_t a, int64_t b) { return std::min(a + b, kMostSum); }
inline int64_t bounded_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostSum : std::min(product, kMostSum);
}

}  // namespace memtune
