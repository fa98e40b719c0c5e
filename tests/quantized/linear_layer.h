// Checks for operators that multiply by quantized weights. They must compute what a linear layer computes with the
// unpacked weight, and hooks must see what they save.
#pragma once

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/autograd/hooks.h"

namespace memtune::tests {

// Compares `call(input, bias)` with a linear layer of `weight`. Result and gradients must be equal bit for bit.
template <typename Call>
void check_is_linear(const at::Tensor& x, const at::Tensor& weight, const Call& call) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const at::Tensor factor = at::randn(sizes).to(x.scalar_type());
  std::vector<at::Tensor> results, gradients, of_bias;
  for (const bool quantized : {true, false}) {
    const at::Tensor input = x.clone().requires_grad_();
    const at::Tensor bias = at::ones({weight.size(0)}, x.options()).requires_grad_();
    results.push_back(quantized ? call(input, bias) : at::linear(input, weight, bias));
    autograd::backward((results.back() * factor).sum());
    gradients.push_back(input.grad());
    of_bias.push_back(bias.grad());
  }
  CHECK(at::equal(results[0], results[1]));
  CHECK(at::equal(gradients[0], gradients[1]));
  CHECK(at::equal(of_bias[0], of_bias[1]));
}

struct Nothing final : autograd::PackedSavedTensor {
  at::Tensor unpack() override {
    FAIL("backward asks for what it saved");
    return {};
  }
};

struct KeepSaves final : autograd::SavedTensorPacker {
  std::unique_ptr<autograd::PackedSavedTensor> pack(const at::Tensor& tensor) override {
    saves.push_back(tensor);
    return std::make_unique<Nothing>();
  }
  std::vector<at::Tensor> saves;
};

}  // namespace memtune::tests
