#include "core/model/quantized/linear_8bit.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/engine/autograd/hooks.h"
#include "core/model/ops/autocast.h"
#include "core/model/quantized/int8.h"
#include "core/plan/facts/operator_class_and_argument_roles.h"
#include "tests/quantized/linear_layer.h"
namespace memtune::quantized::linear_8bit_test {
namespace {

at::Tensor call(const at::Tensor& input, const Int8Weight& weight, const at::Tensor& bias = {}) {
  torch::jit::Stack stack = {input, weight.numbers, weight.largest, bias.defined() ? c10::IValue(bias) : c10::IValue()};
  linear_8bit().callBoxed(stack);
  return stack.at(0).toTensor();
}

}  // namespace

TEST_CASE("on a CPU the 8-bit operator has the result and gradients of a linear layer") {
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Int8Weight packed = pack_int8(at::randn({48, 64}).to(type));
    const at::Tensor weight = unpack_int8(packed, type);
    tests::check_is_linear(at::randn({6, 64}).to(type), weight,
                           [&](const at::Tensor& x, const at::Tensor& bias) { return call(x, packed, bias); });
  }
}

TEST_CASE("the 8-bit operator saves its input through hooks although backward never unpacks it") {
  const Int8Weight packed = pack_int8(at::randn({8, 64}));
  tests::KeepSaves keep;
  const autograd::SavedTensorHooksScope hooks(&keep);
  const at::Tensor x = at::randn({2, 64}).requires_grad_();
  const at::Tensor y = call(x, packed);
  REQUIRE(keep.saves.size() == 1);
  CHECK(keep.saves[0].is_alias_of(x));
  autograd::backward(y.sum());
  CHECK(x.grad().defined());
  CHECK_FALSE(call(at::randn({2, 64}), packed).requires_grad());
  CHECK(keep.saves.size() == 1);
}

TEST_CASE("under autocast the 8-bit operator returns autocast's dtype and gradients of its input's dtype") {
  at::manual_seed(4);
  const Int8Weight packed = pack_int8(at::randn({8, 64}));
  const at::Tensor x = at::randn({2, 64}).requires_grad_();
  const ops::AutocastScope autocast(c10::kCPU, {true, at::kBFloat16});
  const at::Tensor y = call(x, packed);
  CHECK((y.scalar_type() == at::kBFloat16));
  const at::Tensor weight = unpack_int8(packed, at::kFloat).to(at::kBFloat16);
  CHECK(at::equal(y, at::linear(x.to(at::kBFloat16), weight)));
  autograd::backward(y.sum());
  CHECK((x.grad().scalar_type() == at::kFloat));
}

TEST_CASE("memtune knows the 8-bit operator as a matmul") {
  CHECK((plan::traits_of(kLinear8Bit).op_class == plan::OpClass::matmul));
  CHECK(plan::traits_of(kLinear8Bit).weight == 1);
}

}  // namespace memtune::quantized::linear_8bit_test
