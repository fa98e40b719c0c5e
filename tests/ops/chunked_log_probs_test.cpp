// Log probabilities by tiles of a vocabulary have a backward of their own. They must equal the plain ones, also where a
// row or a word is in the second tile.
#include "core/model/ops/chunked_log_probs.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/model/ops/autocast.h"
#include "core/model/ops/linear_cross_entropy.h"
#include "tests/ops/log_probs_case.h"

namespace memtune::ops::chunked_log_probs_test {
namespace {

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
  const auto found = c.train(c.by_tiles());
  for (const at::Tensor& each : found) CHECK(each.count_nonzero().item<int64_t>() == 0);
}

TEST_CASE("under autocast the layer computes in its dtype, and gradients have those of the parameters") {
  const Case c(2, 7, 11, true);
  Case rounded = c;
  rounded.hidden = c.hidden.detach().to(at::kBFloat16).requires_grad_();
  rounded.weight = c.weight.detach().to(at::kBFloat16).requires_grad_();
  rounded.bias = c.bias.detach().to(at::kBFloat16).requires_grad_();
  const auto expected = rounded.train(rounded.by_tiles());
  const AutocastScope autocast(c10::kCPU, {true, at::kBFloat16});
  const auto found = c.train(c.by_tiles());
  CHECK(found[0].equal(expected[0]));
  for (size_t i = 1; i < found.size(); ++i) {
    CHECK((found[i].scalar_type() == at::kFloat));
    CHECK(found[i].to(at::kBFloat16).equal(expected[i]));
  }
}

}  // namespace
}  // namespace memtune::ops::chunked_log_probs_test
