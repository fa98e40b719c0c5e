// Bloom's GELU must be near the approximation of PyTorch and have the gradient that its formula has.
#include "core/model/ops/bloom_gelu.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace memtune::bloom_gelu_test {

TEST_CASE("GELU of Bloom and its gradient are near those of the approximation by tanh") {
  const at::Tensor x = at::linspace(-4, 4, 33, at::kDouble).requires_grad_();
  const at::Tensor other = x.detach().clone().requires_grad_();
  const at::Tensor y = ops::bloom_gelu(x), expected = at::gelu(other, "tanh");
  CHECK(at::allclose(y, expected, 1e-6, 1e-7));
  y.sum().backward();
  expected.sum().backward();
  CHECK(at::allclose(x.grad(), other.grad(), 1e-6, 1e-7));
}

}  // namespace memtune::bloom_gelu_test
