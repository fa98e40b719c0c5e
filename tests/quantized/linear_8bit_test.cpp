#include "core/quantized/linear_8bit.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/autograd/autocast.h"
#include "core/autograd/hooks.h"
#include "core/config/op_traits.h"
#include "core/quantized/int8.h"

namespace memtune::quantized {
namespace {

at::Tensor call(const at::Tensor& input, const Int8& weight, const at::Tensor& bias = {}) {
  torch::jit::Stack stack = {input, weight.numbers, weight.largest, bias.defined() ? c10::IValue(bias) : c10::IValue()};
  linear_8bit().callBoxed(stack);
  return stack.at(0).toTensor();
}

struct Nothing final : autograd::Ticket {
  at::Tensor unpack() override {
    FAIL("backward asks for what it saved");
    return {};
  }
};

struct KeepSaves final : autograd::Packer {
  std::unique_ptr<autograd::Ticket> pack(const at::Tensor& tensor) override {
    saves.push_back(tensor);
    return std::make_unique<Nothing>();
  }
  std::vector<at::Tensor> saves;
};

}  // namespace

TEST_CASE("on a CPU result and gradients are those of a linear layer with the whole weight") {
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Int8 packed = pack_int8(at::randn({48, 64}).to(type));
    const at::Tensor weight = unpack_int8(packed, type);
    const at::Tensor x = at::randn({6, 64}).to(type), factor = at::randn({6, 48}).to(type);
    std::vector<at::Tensor> results, gradients, of_bias;
    for (const bool quantized : {true, false}) {
      const at::Tensor input = x.clone().requires_grad_();
      const at::Tensor bias = at::ones({48}, x.options()).requires_grad_();
      results.push_back(quantized ? call(input, packed, bias) : at::linear(input, weight, bias));
      autograd::backward((results.back() * factor).sum());
      gradients.push_back(input.grad());
      of_bias.push_back(bias.grad());
    }
    CHECK(at::equal(results[0], results[1]));
    CHECK(at::equal(gradients[0], gradients[1]));
    CHECK(at::equal(of_bias[0], of_bias[1]));
  }
}

TEST_CASE("its input is saved where hooks see it, though no backward asks for it") {
  const Int8 packed = pack_int8(at::randn({8, 64}));
  KeepSaves keep;
  const autograd::HookScope hooks(&keep);
  const at::Tensor x = at::randn({2, 64}).requires_grad_();
  const at::Tensor y = call(x, packed);
  REQUIRE(keep.saves.size() == 1);
  CHECK(keep.saves[0].is_alias_of(x));
  autograd::backward(y.sum());
  CHECK(x.grad().defined());
  CHECK_FALSE(call(at::randn({2, 64}), packed).requires_grad());
  CHECK(keep.saves.size() == 1);
}

TEST_CASE("under autocast it answers in autocast's type, and its gradient is of its input's") {
  at::manual_seed(4);
  const Int8 packed = pack_int8(at::randn({8, 64}));
  const at::Tensor x = at::randn({2, 64}).requires_grad_();
  const autograd::AutocastScope autocast(c10::kCPU, {true, at::kBFloat16});
  const at::Tensor y = call(x, packed);
  CHECK((y.scalar_type() == at::kBFloat16));
  const at::Tensor weight = unpack_int8(packed, at::kFloat).to(at::kBFloat16);
  CHECK(at::equal(y, at::linear(x.to(at::kBFloat16), weight)));
  autograd::backward(y.sum());
  CHECK((x.grad().scalar_type() == at::kFloat));
}

TEST_CASE("memtune knows the operator of eight bits as a matmul") {
  CHECK((config::traits_of(kLinear8Bit).op_class == config::OpClass::matmul));
  CHECK(config::traits_of(kLinear8Bit).weight == 1);
}

}  // namespace memtune::quantized
