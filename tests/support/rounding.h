// Limits for differences between correct results, on any processor and with any number of threads.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace memtune::tests {

// The largest relative rounding error of a number.
inline double unit_roundoff(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return std::numeric_limits<double>::epsilon() / 2;
    case at::kFloat: return std::numeric_limits<float>::epsilon() / 2;
    case at::kHalf: return std::ldexp(1, -11);
    case at::kBFloat16: return std::ldexp(1, -8);
    default: TORCH_CHECK(false, "no roundoff of ", c10::toString(type));
  }
}

// The largest difference relative to the largest number of `expected`.
inline double relative_difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor right = expected.detach().to(at::kDouble);
  return ((found.detach().to(at::kDouble) - right).abs().max() / right.abs().max()).item<double>();
}

// Sums in another order differ by one rounding per operation, a few hundred in these small models. Wrong results differ
// in the first digits. Half of the digits is a limit between both.
inline bool half_of_digits_equal(const at::Tensor& found, const at::Tensor& expected) {
  return found.scalar_type() == expected.scalar_type() && found.sizes() == expected.sizes() &&
         relative_difference(found, expected) <= std::sqrt(unit_roundoff(expected.scalar_type()));
}

}  // namespace memtune::tests
