// A linear layer over a vocabulary with labels, for tests of chunked_log_probs() beside the plain computation.
#pragma once

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "core/engine/autograd/hooks.h"
#include "core/model/ops/chunked_log_probs.h"
#include "core/model/ops/linear_cross_entropy.h"
#include "tests/support/rounding.h"

namespace memtune::ops::chunked_log_probs_test {

struct Case {
  at::Tensor hidden, weight, bias, labels, scales;
  LogitScaleAndSoftcap scaling = {};

  Case(int64_t rows, int64_t length, int64_t vocabulary, bool biased, const at::TensorOptions& options = {}) {
    at::manual_seed(static_cast<uint64_t>(length));
    hidden = at::randn({rows, length, 8}, options).requires_grad_();
    weight = at::randn({vocabulary, 8}, options).requires_grad_();
    if (biased) bias = at::randn({vocabulary}, options).requires_grad_();
    labels = at::randint(vocabulary, {rows, length}, options.dtype(at::kLong));
    labels.view(-1)[0] = vocabulary - 1;
    labels.view(-1)[1] = 0;
    labels.masked_fill_(at::rand({rows, length}, options.dtype(at::kFloat)).lt(0.3), kIgnoredLabel);
    scales = at::randn({rows, length}, options.dtype(at::kFloat));
  }
  std::optional<at::Tensor> given_bias() const { return bias.defined() ? std::optional(bias) : std::nullopt; }

  // In double precision, but for the layer's own rounding.
  at::Tensor plain() const {
    const bool rounds = hidden.scalar_type() != at::kFloat;
    const auto wide = [&](const at::Tensor& tensor) {
      return tensor.defined() && !rounds ? tensor.to(at::kDouble) : tensor;
    };
    at::Tensor z = at::linear(wide(hidden), wide(weight), wide(bias)).to(at::kDouble);
    z = z * scaling.scale;
    if (scaling.softcap) z = (z / *scaling.softcap).tanh() * *scaling.softcap;
    const at::Tensor all = z.log_softmax(-1).gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1);
    return all.masked_fill(labels.eq(kIgnoredLabel), 0);
  }
  // The log probabilities and the gradients.
  std::vector<at::Tensor> train(const at::Tensor& log_probs) const {
    autograd::backward((log_probs * scales).sum());
    std::vector<at::Tensor> all = {log_probs.detach().to(at::kFloat)};
    for (const at::Tensor& leaf : {hidden, weight, bias})
      if (leaf.defined()) {
        all.push_back(leaf.grad());
        leaf.mutable_grad().reset();
      }
    return all;
  }
  at::Tensor by_tiles() const { return chunked_log_probs(hidden, weight, given_bias(), labels, scaling); }
  void check() const {
    const auto expected = train(plain()), found = train(by_tiles());
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(tests::half_of_digits_equal(found[i], expected[i]));
  }
};

}  // namespace memtune::ops::chunked_log_probs_test
