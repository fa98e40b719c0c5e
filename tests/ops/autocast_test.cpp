// Under autocast a trace must compute what Python does, although it has ops that Python never calls by name.
#include "core/model/ops/autocast.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
namespace memtune::ops::ops_autocast_test {
namespace {

struct Convolved {
  at::Tensor result, gradient;
};

template <typename Convolve>
Convolved convolve(const at::Tensor& weight, const Convolve& convolution) {
  const at::Tensor leaf = weight.clone().requires_grad_();
  at::Tensor result;
  {
    const AutocastScope autocast(c10::kCPU, {true, at::kBFloat16});
    result = convolution(leaf);
  }
  (result * result).sum().backward();
  return {result.detach(), leaf.grad()};
}

void check_same(const Convolved& a, const Convolved& b) {
  CHECK((a.result.scalar_type() == at::kBFloat16));
  CHECK(at::equal(a.result, b.result));
  CHECK((a.gradient.scalar_type() == at::kFloat));
  CHECK(at::equal(a.gradient, b.gradient));
}

TEST_CASE("autocast on a CPU casts convolutions under the names that a trace has for them") {
  const at::Tensor x = at::randn({2, 4, 9, 9}), weight = at::randn({4, 4, 3, 3});
  const std::vector<int64_t> one = {1, 1}, none = {0, 0};
  const auto recorded = [&](bool transposed) {
    return convolve(weight, [&, transposed](const at::Tensor& w) {
      return at::_convolution(x, w, {}, one, none, one, transposed, none, 1, false, false, true, true);
    });
  };
  check_same(recorded(false), convolve(weight, [&](const at::Tensor& w) { return at::conv2d(x, w); }));
  check_same(recorded(true), convolve(weight, [&](const at::Tensor& w) { return at::conv_transpose2d(x, w); }));
  const auto mode = [&](const at::Tensor& w) { return at::_convolution_mode(x, w, {}, one, "same", one, 1); };
  const auto padded = [&](const at::Tensor& w) { return at::conv2d(x, w, {}, one, c10::string_view("same")); };
  check_same(convolve(weight, mode), convolve(weight, padded));
}

TEST_CASE("an autocast scope restores the previous state") {
  const at::Tensor x = at::ones({2, 2});
  {
    const AutocastScope outer(c10::kCPU, {true, at::kBFloat16});
    {
      const AutocastScope inner(c10::kCPU, {false, at::kHalf});
      CHECK((at::matmul(x, x).scalar_type() == at::kFloat));
    }
    CHECK((at::matmul(x, x).scalar_type() == at::kBFloat16));
  }
  CHECK_FALSE(AutocastState::now(c10::kCPU).enabled);
  CHECK((at::matmul(x, x).scalar_type() == at::kFloat));
}

}  // namespace
}  // namespace memtune::ops::ops_autocast_test
