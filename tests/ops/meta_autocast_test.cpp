// Casts of the meta device's autocast: which operators get which dtype, and that a parameter is cast once.
#include "core/model/ops/meta_autocast.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <initializer_list>

namespace memtune::ops::meta_autocast_test {
namespace {

at::Tensor meta(std::initializer_list<int64_t> shape, at::ScalarType type = at::kFloat) {
  return at::empty(shape, at::TensorOptions(c10::kMeta).dtype(type));
}

const AutocastState kBf16{true, at::kBFloat16};

TEST_CASE("meta tensors are cast as on CUDA") {
  const at::Tensor x = meta({2, 4}), weight = meta({3, 4}), narrow = meta({2, 4}, at::kBFloat16);
  const AutocastScope autocast(c10::kMeta, kBf16);
  CHECK((at::linear(x, weight).scalar_type() == at::kBFloat16));
  CHECK((at::matmul(x, weight.t()).scalar_type() == at::kBFloat16));
  CHECK((at::einsum("ij,kj->ik", {x, weight}).scalar_type() == at::kBFloat16));
  CHECK((at::softmax(narrow, -1).scalar_type() == at::kFloat));
  CHECK((at::layer_norm(narrow, {4}).scalar_type() == at::kFloat));
  CHECK((at::pow(narrow, 2).scalar_type() == at::kFloat));
  CHECK((at::cat({x, narrow}).scalar_type() == at::kFloat));
  CHECK((at::cat({narrow, narrow}).scalar_type() == at::kBFloat16));
  CHECK((at::gelu(narrow).scalar_type() == at::kBFloat16));
  CHECK((at::linear(meta({2, 4}, at::kDouble), meta({3, 4}, at::kDouble)).scalar_type() == at::kDouble));
}

TEST_CASE("nothing is cast outside of the scope or in one that turns autocast off") {
  const at::Tensor x = meta({2, 4}), weight = meta({3, 4});
  {
    const AutocastScope autocast(c10::kMeta, kBf16);
    const AutocastScope off(c10::kMeta, {false, at::kBFloat16});
    CHECK((at::linear(x, weight).scalar_type() == at::kFloat));
    CHECK_FALSE(AutocastState::now(c10::kMeta).enabled);
  }
  CHECK((at::linear(x, weight).scalar_type() == at::kFloat));
}

TEST_CASE("a parameter is cast once, until the outermost scope ends") {
  const at::Tensor weight = meta({3, 4}).requires_grad_();
  at::Tensor copy;
  {
    const AutocastScope autocast(c10::kMeta, kBf16);
    copy = meta_autocast_cast(weight);
    CHECK((copy.scalar_type() == at::kBFloat16));
    CHECK(meta_autocast_cast(weight).is_same(copy));
    const AutocastScope uncached(c10::kMeta, {true, at::kBFloat16, false});
    CHECK_FALSE(meta_autocast_cast(weight).is_same(copy));
  }
  const AutocastScope later(c10::kMeta, kBf16);
  CHECK_FALSE(meta_autocast_cast(weight).is_same(copy));
}

}  // namespace
}  // namespace memtune::ops::meta_autocast_test
