// The gradient of an expert's weight must reach the scores as that of their softmax, whatever the factor.
#include "core/model/ops/sparse_mixer.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace memtune::sparse_mixer_test {

TEST_CASE("the weight is the odds times a factor, and its gradient that of the odds") {
  const at::Tensor scores = at::tensor({0.5, -1.0, 2.0, 0.0, 1.0, -0.5}, at::kDouble).view({2, 3}).requires_grad_();
  const at::Tensor other = scores.detach().clone().requires_grad_();
  const at::Tensor chosen = at::tensor({2, 0}, at::kLong).view({2, 1});
  const at::Tensor factors = at::tensor({1.0, 0.3333}, at::kDouble).view({2, 1});
  const at::Tensor all_odds = scores.softmax(-1), odds = all_odds.gather(-1, chosen);
  const at::Tensor weights = ops::sparse_mixer(scores, odds, chosen, all_odds, factors);
  CHECK(weights.equal(odds * factors));
  weights.sum().backward();
  other.softmax(-1).gather(-1, chosen).sum().backward();
  CHECK(at::allclose(scores.grad(), other.grad()));
}

}  // namespace memtune::sparse_mixer_test
