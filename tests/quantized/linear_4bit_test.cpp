#include "core/model/quantized/linear_4bit.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/engine/autograd/hooks.h"
#include "core/model/ops/autocast.h"
#include "core/model/quantized/nf4.h"
#include "core/plan/facts/operator_class_and_argument_roles.h"
#include "tests/quantized/linear_layer.h"
namespace memtune::quantized::linear_4bit_test {
namespace {

at::Tensor call(const at::Tensor& input, const Nf4Weight& weight, int64_t rows, int64_t columns,
                const at::Tensor& bias = {}) {
  torch::jit::Stack stack = {input, weight.bytes, weight.largest};
  const auto optional = [&](const at::Tensor& tensor) {
    stack.push_back(tensor.defined() ? c10::IValue(tensor) : c10::IValue());
  };
  optional(weight.largest_of_largest);
  optional(weight.mean);
  stack.emplace_back(rows);
  stack.emplace_back(columns);
  optional(bias);
  linear_4bit().callBoxed(stack);
  return stack.at(0).toTensor();
}

}  // namespace

TEST_CASE("the 4-bit operator has the result and gradients of a linear layer with the unpacked weight") {
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Nf4Weight packed = pack_nf4(at::randn({48, 64}).to(type), Nf4AbsmaxScaleEncoding::quantized);
    const at::Tensor weight = unpack_nf4(packed, {48, 64}, type);
    tests::check_is_linear(at::randn({2, 3, 64}).to(type), weight,
                           [&](const at::Tensor& x, const at::Tensor& bias) { return call(x, packed, 48, 64, bias); });
  }
}

TEST_CASE("the 4-bit operator saves nothing and adds no node for an input without gradient") {
  const Nf4Weight packed = pack_nf4(at::randn({8, 64}), Nf4AbsmaxScaleEncoding::plain);
  tests::KeepSaves keep;
  const autograd::SavedTensorHooksScope hooks(&keep);
  CHECK(call(at::randn({2, 64}).requires_grad_(), packed, 8, 64).requires_grad());
  CHECK_FALSE(call(at::randn({2, 64}), packed, 8, 64).requires_grad());
  CHECK(keep.saves.empty());
}

TEST_CASE("under autocast the 4-bit operator computes in autocast's dtype and returns its input's dtype") {
  at::manual_seed(4);
  const Nf4Weight packed = pack_nf4(at::randn({8, 64}), Nf4AbsmaxScaleEncoding::plain);
  const at::Tensor x = at::randn({2, 64}).requires_grad_();
  const ops::AutocastScope autocast(c10::kCPU, {true, at::kBFloat16});
  const at::Tensor y = call(x, packed, 8, 64);
  CHECK((y.scalar_type() == at::kFloat));
  const at::Tensor weight = unpack_nf4(packed, {8, 64}, at::kBFloat16);
  CHECK(at::equal(y, at::linear(x.to(at::kBFloat16), weight).to(at::kFloat)));
  autograd::backward(y.sum());
  CHECK((x.grad().scalar_type() == at::kFloat));
}

TEST_CASE("memtune knows the 4-bit operator as a matmul") {
  CHECK((plan::traits_of(kLinear4Bit).op_class == plan::OpClass::matmul));
  CHECK(plan::traits_of(kLinear4Bit).weight == 1);
}

}  // namespace memtune::quantized::linear_4bit_test
