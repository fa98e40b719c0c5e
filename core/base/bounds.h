// Bounds of the numbers that memtune reads from files, streams and the command line. Readers refuse larger numbers and
// name the field, so that sums and products of a few fields fit int64_t and quotients fit double. OverflowCheckedSum
// bounds the sum over a table. Sums inside a simulation saturate at kMaxSum.
#pragma once

#include <algorithm>
#include <cstdint>

namespace memtune {

inline constexpr int64_t kMaxCount = int64_t{1} << 53;  // default for integers; a double holds each exactly
inline constexpr int64_t kMaxBytes = int64_t{1} << 50;  // 1 PiB: one file, or the sum over a table
inline constexpr double kMaxNumber = 1e60;              // above any float32 loss and its square
inline constexpr double kMinNumber = 1e-60;             // smaller magnitudes are read as 0
inline constexpr double kMaxFigure = 1e15;              // times in ms, rates, ratios

// Sum of the sizes that a file lists. It is limited as a whole, so that many valid sizes cannot overflow it.
class OverflowCheckedSum {
 public:
  explicit OverflowCheckedSum(int64_t most = kMaxBytes) : most_(most) {}
  // Returns false and adds nothing if `size` is negative or the sum would exceed the limit.
  bool add(int64_t size) {
    if (size < 0 || size > most_ - sum_) return false;
    sum_ += size;
    return true;
  }

 private:
  int64_t most_, sum_ = 0;
};

inline constexpr int64_t kMaxSum = int64_t{1} << 61;

// Saturating arithmetic: arguments from 0 to kMaxSum, results at most kMaxSum.
inline int64_t bounded_sum(int64_t a, int64_t b) { return std::min(a + b, kMaxSum); }
inline int64_t bounded_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMaxSum : std::min(product, kMaxSum);
}

}  // namespace memtune
