// A loss that computes its logits in chunks has a backward of its own. It must equal the plain loss within the rounding
// of both, and it must never hold all logits.
#include "core/model/ops/linear_cross_entropy.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "core/engine/autograd/hooks.h"
#include "core/model/ops/autocast.h"
#include "tests/support/rounding.h"
#include "tests/support/training.h"
namespace memtune::ops::linear_cross_entropy_test {
namespace {

using Kind = LogitElementwiseOperation::Kind;

struct Case {
  at::Tensor hidden, weight, bias, labels;
  std::vector<LogitElementwiseOperation> steps = {};

  Case(int64_t tokens, int64_t width, int64_t vocabulary, bool biased, at::ScalarType dtype = at::kFloat) {
    at::manual_seed(static_cast<uint64_t>(tokens));
    hidden = at::randn({tokens, width}).to(dtype).requires_grad_();
    weight = at::randn({vocabulary, width}).mul(0.3).to(dtype).requires_grad_();
    if (biased) bias = at::randn({vocabulary}).to(dtype).requires_grad_();
    labels = at::randint(vocabulary, {tokens}, at::kLong);
    labels.masked_fill_(at::rand({tokens}).lt(0.3), -100);
  }
  at::Tensor plain() const {
    at::Tensor logits = at::linear(hidden, weight, bias);
    for (const LogitElementwiseOperation& step : steps) {
      if (step.kind == Kind::multiply) logits = logits * step.factor;
      if (step.kind == Kind::divide) logits = logits / step.factor;
      if (step.kind == Kind::tanh) logits = logits.tanh();
      if (step.kind == Kind::to_float) logits = logits.to(at::kFloat);
    }
    return at::cross_entropy_loss(logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat), labels);
  }
  Case in_doubles() const {
    Case exact = *this;
    for (at::Tensor* leaf : {&exact.hidden, &exact.weight, &exact.bias})
      if (leaf->defined()) *leaf = leaf->detach().to(at::kDouble).requires_grad_();
    std::erase_if(exact.steps, [](const LogitElementwiseOperation& step) { return step.kind == Kind::to_float; });
    return exact;
  }
  at::Tensor chunked(int64_t chunks) const {
    return linear_cross_entropy(hidden, weight, bias.defined() ? std::optional(bias) : std::nullopt, labels,
                                {chunks, steps});
  }

  struct Result {
    at::Tensor loss;
    std::vector<at::Tensor> gradients;
  };
  Result train(const at::Tensor& loss, double factor = 1) const {
    autograd::backward(loss * factor);
    Result result{loss.detach(), {}};
    for (const at::Tensor& leaf : {hidden, weight, bias})
      if (leaf.defined()) {
        result.gradients.push_back(leaf.grad());
        leaf.mutable_grad().reset();
      }
    return result;
  }
};

// Each chunk's part of a gradient is rounded to its dtype, and so is the product with the factor. Both losses are sums
// of positive numbers. A sum of N numbers in any order is exact to (N - 1) u.
struct Rounding {
  Rounding(const Case& c, int64_t chunks, at::ScalarType dtype = at::kFloat) {
    const int64_t tokens = c.hidden.size(0), rows = fused_chunk_rows(tokens, c.weight.size(1), c.weight.size(0));
    const int64_t count = chunks > 0 ? std::min(chunks, tokens) : (tokens + rows - 1) / rows;
    of_gradients = static_cast<double>(count + 1) * tests::unit_roundoff(dtype);
    of_loss = static_cast<double>(2 * tokens) * tests::unit_roundoff(at::kFloat);
  }
  double of_gradients = 0, of_loss = 0;
};

// The difference between the plain loss and the loss in doubles shows the rounding of this run. Ours may differ by as
// much on the other side, and by its own roundings.
void check_near(const Case::Result& ours, const Case::Result& plain, const Case& c, const Rounding& rounding,
                double factor = 1) {
  const Case exact = c.in_doubles();
  const Case::Result exactly = exact.train(exact.plain(), factor);
  const auto near = [](const at::Tensor& found, const at::Tensor& expected, const at::Tensor& right, double own) {
    REQUIRE(found.defined());
    REQUIRE(found.dtype() == expected.dtype());
    CHECK(tests::relative_difference(found, expected) <= 2 * tests::relative_difference(expected, right) + own);
  };
  near(ours.loss, plain.loss, exactly.loss, rounding.of_loss);
  REQUIRE(ours.gradients.size() == plain.gradients.size());
  for (size_t i = 0; i < plain.gradients.size(); ++i) {
    CAPTURE(i);
    near(ours.gradients[i], plain.gradients[i], exactly.gradients[i], rounding.of_gradients);
  }
}

const std::vector<std::vector<LogitElementwiseOperation>> kSteps = {
    {},
    {{Kind::multiply, 0.0625}},
    {{Kind::divide, 8}},
    {{Kind::divide, 30}, {Kind::tanh}, {Kind::multiply, 30}},
    {{Kind::to_float}, {Kind::divide, 3}, {Kind::tanh}, {Kind::tanh}},
};

TEST_CASE("chunked loss and gradients equal the plain ones for every number of chunks") {
  for (const auto& steps : kSteps)
    for (const bool biased : {false, true})
      for (const int64_t chunks : {0, 1, 3, 8, 100}) {
        CAPTURE(chunks);
        CAPTURE(biased);
        CAPTURE(steps.size());
        Case c(53, 16, 71, biased);
        c.steps = steps;
        check_near(c.train(c.chunked(chunks)), c.train(c.plain()), c, {c, chunks});
        check_near(c.train(c.chunked(chunks), 0.25), c.train(c.plain(), 0.25), c, {c, chunks}, 0.25);
      }
}

TEST_CASE("a chunked loss in bfloat16 equals the plain one within rounding and one chunk has its bits") {
  for (const auto& steps : kSteps) {
    CAPTURE(steps.size());
    Case c(64, 32, 80, true, at::kBFloat16);
    c.steps = steps;
    const auto plain = c.train(c.plain());
    for (const int64_t chunks : {0, 4}) check_near(c.train(c.chunked(chunks)), plain, c, {c, chunks, at::kBFloat16});
    const auto whole = c.train(c.chunked(1));
    for (size_t i = 0; i < 2; ++i) CHECK(at::equal(whole.gradients[i], plain.gradients[i]));
  }
}

TEST_CASE("under autocast a chunked loss computes in its dtype and gradients keep the arguments' dtype") {
  for (const int64_t chunks : {0, 1, 4}) {
    CAPTURE(chunks);
    Case c(64, 32, 80, true);
    const auto in_autocast = [&](auto&& loss) {
      const AutocastScope scope(c10::kCPU, {true, at::kBFloat16});
      return loss();
    };
    const auto ours = c.train(in_autocast([&] { return c.chunked(chunks); }));
    const auto plain = c.train(in_autocast([&] { return c.plain(); }));
    CHECK((ours.gradients[1].scalar_type() == at::kFloat));
    check_near(ours, plain, c, {c, chunks, at::kBFloat16});
    CHECK(at::equal(ours.gradients[1], ours.gradients[1].to(at::kBFloat16).to(at::kFloat)));
  }
}

TEST_CASE("a chunked loss gives frozen weights no gradient and saves nothing if nothing is trained") {
  for (const int64_t chunks : {0, 3}) {
    CAPTURE(chunks);
    Case c(20, 8, 11, false);
    c.weight.set_requires_grad(false);
    const auto ours = c.train(c.chunked(chunks));
    CHECK_FALSE(ours.gradients[1].defined());
    CHECK(tests::half_of_digits_equal(ours.gradients[0], c.train(c.plain()).gradients[0]));
    c.hidden.set_requires_grad(false);
    CHECK_FALSE(c.chunked(chunks).requires_grad());
  }
}

TEST_CASE("a chunked loss without counted labels has no mean like the plain loss") {
  for (const int64_t chunks : {0, 3}) {
    Case c(20, 8, 11, false);
    c.labels.fill_(-100);
    CHECK(std::isnan(c.plain().item<float>()));
    const auto ours = c.train(c.chunked(chunks));
    CHECK(std::isnan(ours.loss.item<float>()));
    for (const at::Tensor& gradient : ours.gradients) CHECK(gradient.eq(0).all().item<bool>());
  }
}

// Peak allocated bytes of forward and backward, above the allocated bytes before.
int64_t peak_of(const Case& c, const std::function<at::Tensor()>& loss) {
  auto& device = tests::test_device();
  device.reset_peak();
  const int64_t before = device.memory().allocated;
  autograd::backward(loss());
  const int64_t peak = device.memory().peak_allocated - before;
  for (const at::Tensor& leaf : {c.hidden, c.weight}) leaf.mutable_grad().reset();
  return peak;
}

TEST_CASE("a chunked loss holds gradients and the logits of some tokens but never all logits") {
  const int64_t tokens = 4096, width = 64, vocabulary = 2000;
  const Case c(tokens, width, vocabulary, false);
  const int64_t logits = tokens * vocabulary * 4, gradients = (tokens + vocabulary) * width * 4;
  CHECK(peak_of(c, [&] { return c.plain(); }) > 2 * logits);
  const int64_t small = 64 << 10;  // labels and sums
  const auto most = [&](int64_t rows) {
    return gradients + 2 * rows * vocabulary * 4 + vocabulary * width * 4 + small;
  };
  CHECK(peak_of(c, [&] { return c.chunked(16); }) <= most(tokens / 16));
  CHECK(fused_chunk_rows(tokens, width, vocabulary) == 128);
  CHECK(peak_of(c, [&] { return c.chunked(0); }) <= most(128));
}

TEST_CASE("a fused loss cuts tokens into chunks as Liger does") {
  CHECK(fused_chunk_rows(8192, 2048, 128256) == 256);  // 63 chunks of 131 tokens, rounded up
  CHECK(fused_chunk_rows(32768, 4096, 128256) == 1024);
  CHECK(fused_chunk_rows(7, 64, 32) == 8);
  CHECK(fused_chunk_rows(1, 64, 32000) == 1);
}

}  // namespace
}  // namespace memtune::ops::linear_cross_entropy_test
