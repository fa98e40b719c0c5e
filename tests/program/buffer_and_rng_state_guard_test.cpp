// A run that only infers shapes must not change buffers, counters or random generators.
#include "core/model/program/buffer_and_rng_state_guard.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/api/module.h>
namespace memtune::program::module_state_guard_test {
namespace {

TEST_CASE("buffers and attributes and lists and generators are restored") {
  torch::jit::Module module("Model");
  module.register_parameter("weight", at::ones({2}).requires_grad_(), false);
  module.register_buffer("in_place", at::zeros({2}));
  module.register_buffer("replaced", at::zeros({2}));
  module.register_attribute("calls", c10::IntType::get(), 0);
  module.register_attribute("seen", c10::ListType::create(c10::TensorType::get()), c10::List<at::Tensor>());
  module.define(R"(
def forward(self, x):
    self.in_place += 1
    self.replaced = self.replaced + torch.rand([2])
    self.calls = self.calls + 1
    self.seen.append(x)
    return x * self.weight
)");
  at::Tensor in_place = module.attr("in_place").toTensor(), replaced = module.attr("replaced").toTensor();
  at::manual_seed(1);
  at::Tensor next = at::rand({1});
  at::manual_seed(1);
  {
    BufferAndRngStateGuard restore({{}, {}, {}, module._ivalue()}, c10::Device(c10::kCPU));
    module.forward({at::ones({2})});
    CHECK(module.attr("calls").toInt() == 1);
  }
  CHECK(module.attr("in_place").toTensor().is_same(in_place));
  CHECK(in_place.eq(0).all().item<bool>());
  CHECK(module.attr("replaced").toTensor().is_same(replaced));
  CHECK(module.attr("calls").toInt() == 0);
  CHECK(module.attr("seen").toList().empty());
  CHECK(at::equal(at::rand({1}), next));
}

TEST_CASE("buffers of a state without an object are restored and parameters are not copied") {
  at::Tensor buffer = at::zeros({2}), parameter = at::zeros({2});
  {
    BufferAndRngStateGuard restore({{{"weight", parameter}}, {{"count", buffer}}, {}, {}}, c10::Device(c10::kCPU));
    buffer.add_(1);
    parameter.add_(1);
  }
  CHECK(buffer.eq(0).all().item<bool>());
  CHECK(parameter.eq(1).all().item<bool>());
}

TEST_CASE("a module without state stays unchanged") {
  torch::jit::Module module("Empty");
  { BufferAndRngStateGuard restore({{}, {}, {}, module._ivalue()}, c10::Device(c10::kCPU)); }
  CHECK(module.attributes().size() == 0);
}

}  // namespace
}  // namespace memtune::program::module_state_guard_test
