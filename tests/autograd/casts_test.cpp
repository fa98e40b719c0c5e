// Under autocast autograd saves cast copies that no op of the program made. They must be distinguished from an op's own
// tensors.
#include "core/engine/autograd/casts.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>
namespace memtune::autograd::casts_test {
namespace {

at::Tensor cast(const at::Tensor& tensor) { return tensor.to(at::kBFloat16); }

TEST_CASE("the source of a cast copy is found even through views") {
  const at::Tensor leaf = at::randn({4, 4}).requires_grad_();
  const at::Tensor a = leaf * 2, b = leaf + 1;
  CHECK(find_cast_source(cast(a), {b, a}) == 1);
  CHECK(find_cast_source(cast(a).t(), {a, b}) == 0);
  CHECK(find_cast_source(cast(a).view({16}), {a, b}) == 0);
  CHECK(find_cast_source(cast(a), {b}) == -1);
  CHECK(find_cast_source(cast(a) * 2, {a}) == -1);  // no longer the copy
  CHECK(find_cast_source(a, {a}) == -1);
  CHECK(find_cast_source(cast(at::randn({2})), {a}) == -1);  // a copy without history has no known source
}

TEST_CASE("a cast copy of a parameter is recognised") {
  const at::Tensor parameter = at::randn({4, 4}).requires_grad_();
  CHECK(is_cast_parameter(cast(parameter)));
  CHECK(is_cast_parameter(cast(parameter).t()));
  CHECK_FALSE(is_cast_parameter(cast(parameter * 2)));
  CHECK_FALSE(is_cast_parameter(parameter));
}

}  // namespace
}  // namespace memtune::autograd::casts_test
