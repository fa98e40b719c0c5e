// Log probabilities by tiles of a vocabulary have a backward of their own. They must equal the plain ones, also where a
// row or a word is in the second tile.
#include "core/model/ops/chunked_log_probs.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "core/engine/autograd/hooks.h"
#include "core/model/ops/autocast.h"
#include "core/model/ops/linear_cross_entropy.h"
#include "tests/support/rounding.h"
namespace memtune::ops::chunked_log_probs_test {
namespace {

struct Case {
  at::Tensor hidden, weight, bias, labels, scales;
  LogitScaling scaling = {};

  Case(int64_t rows, int64_t length, int64_t vocabulary, bool biased) {
    at::manual_seed(static_cast<uint64_t>(length));
    hidden = at::randn({rows, length, 4}).requires_grad_();
    weight = at::randn({vocabulary, 4}).requires_grad_();
    if (biased) bias = at::randn({vocabulary}).requires_grad_();
    labels = at::randint(vocabulary, {rows, length}, at::kLong);
    labels.view(-1)[0] = vocabulary - 1;
    labels.view(-1)[1] = 0;
    labels.masked_fill_(at::rand({rows, length}).lt(0.3), kIgnoredLabel);
    scales = at::randn({rows, length});
  }
  std::optional<at::Tensor> given_bias() const { return bias.defined() ? std::optional(bias) : std::nullopt; }

  // In double precision.
  at::Tensor plain() const {
    at::Tensor z = at::linear(hidden.to(at::kDouble), weight.to(at::kDouble),
                              bias.defined() ? bias.to(at::kDouble) : at::Tensor());
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
  void check() const {
    const auto expected = train(plain());
    const auto found = train(chunked_log_probs(hidden, weight, given_bias(), labels, scaling));
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(tests::half_of_digits_equal(found[i], expected[i]));
  }
};

TEST_CASE("log probabilities by tiles equal the plain ones, with and without bias") {
  Case(2, 7, 11, false).check();
  Case(3, 5, 13, true).check();
}

TEST_CASE("tokens and words of a second tile count once") {
  Case(1, 4100, 3, true).check();    // 4096 tokens
  Case(1, 3, 32771, false).check();  // 32768 words
}

TEST_CASE("logits are scaled, then capped") {
  Case c(2, 9, 17, true);
  c.scaling = {0.3, std::nullopt};
  c.check();
  c.scaling = {2.5, 3.0};
  c.check();
}

TEST_CASE("ignored labels alone give zeros and gradients of zero") {
  Case c(2, 3, 5, false);
  c.labels.fill_(kIgnoredLabel);
  const auto found = c.train(chunked_log_probs(c.hidden, c.weight, {}, c.labels));
  for (const at::Tensor& each : found) CHECK(each.count_nonzero().item<int64_t>() == 0);
}

TEST_CASE("under autocast the layer computes in its dtype, and gradients have those of the parameters") {
  const Case c(2, 7, 11, true);
  Case rounded = c;
  rounded.hidden = c.hidden.detach().to(at::kBFloat16).requires_grad_();
  rounded.weight = c.weight.detach().to(at::kBFloat16).requires_grad_();
  rounded.bias = c.bias.detach().to(at::kBFloat16).requires_grad_();
  const auto expected = rounded.train(chunked_log_probs(rounded.hidden, rounded.weight, rounded.bias, c.labels));
  const AutocastScope autocast(c10::kCPU, {true, at::kBFloat16});
  const auto found = c.train(chunked_log_probs(c.hidden, c.weight, c.bias, c.labels));
  CHECK(found[0].equal(expected[0]));
  for (size_t i = 1; i < found.size(); ++i) {
    CHECK((found[i].scalar_type() == at::kFloat));
    CHECK(found[i].to(at::kBFloat16).equal(expected[i]));
  }
}

}  // namespace
}  // namespace memtune::ops::chunked_log_probs_test
