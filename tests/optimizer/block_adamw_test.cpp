// The bytes of an 8-bit state decide how much fits. tests/models/check_optimizers.py compares its values with
// bitsandbytes.
#include "core/engine/optimizer/block_adamw.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/support/rounding.h"
namespace memtune::optimizer::block_adamw_test {
namespace {

at::Tensor parameter(int64_t elements, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(static_cast<uint64_t>(elements));
  return at::randn({elements}).to(dtype).requires_grad_();
}

void train(Optimizer& optimizer, const std::vector<at::Tensor>& parameters, int steps) {
  at::manual_seed(1);
  for (int i = 0; i < steps; ++i) {
    for (const at::Tensor& p : parameters) p.mutable_grad() = at::randn(p.sizes()).mul_(0.1).to(p.scalar_type());
    optimizer.step();
  }
}

TEST_CASE("8-bit states take a byte per element and a scale per block and small parameters use float32") {
  const std::vector<at::Tensor> parameters = {parameter(10000), parameter(4095, at::kBFloat16), parameter(4096)};
  BitsandbytesAdamW in_8_bits({"adamw_8bit", 0.1}, parameters, true, false);
  train(in_8_bits, parameters, 1);
  CHECK(in_8_bits.state_bytes() == 2 * (10000 + 4 * 40) + 2 * 4 * 4095 + 2 * (4096 + 4 * 16));
  CHECK(in_8_bits.state(0).size() == 5);
  CHECK(in_8_bits.state(1).size() == 3);
}

TEST_CASE("states of an embedding are float32 whatever its size") {
  const std::vector<at::Tensor> parameters = {parameter(10000), parameter(5000)};
  BitsandbytesAdamW optimizer({"adamw_8bit", 0.1, 0, {parameters[0].unsafeGetTensorImpl()}}, parameters, true, false);
  train(optimizer, parameters, 1);
  CHECK(optimizer.state_bytes() == 2 * 4 * 10000 + 2 * (5000 + 4 * 20));
}

TEST_CASE("training with 8-bit states stays close to training with float32 states") {
  const at::Tensor wide = parameter(20000), narrow = wide.detach().clone().requires_grad_();
  BitsandbytesAdamW in_32_bits({"paged_adamw_32bit", 0.01}, {wide}, false, true);
  BitsandbytesAdamW in_8_bits({"adamw_8bit", 0.01}, {narrow}, true, false);
  const at::Tensor before = wide.detach().clone();
  train(in_32_bits, {wide}, 20);
  train(in_8_bits, {narrow}, 20);
  const double moved = (wide - before).abs().mean().item<double>();
  const double apart = (wide - narrow).abs().mean().item<double>();
  CHECK(moved > 0.01);
  CHECK(apart < 0.05 * moved);
  CHECK(apart > 0);
}

TEST_CASE("bitsandbytes AdamW with float32 states equals AdamW within rounding") {
  const at::Tensor ours = parameter(5000), theirs = ours.detach().clone().requires_grad_();
  BitsandbytesAdamW optimizer({"paged_adamw_32bit", 0.01}, {ours}, false, true);
  train(optimizer, {ours}, 5);
  const auto fused = make_optimizer({"adamw", 0.01}, {theirs});
  train(*fused, {theirs}, 5);
  // In both optimizers a step rounds the parameter twice: at the decay and at the update. Updates are a hundredth of
  // it.
  CHECK(tests::relative_difference(ours, theirs) <= 2 * 2 * 5 * tests::unit_roundoff(at::kFloat));
}

TEST_CASE("32-bit AdamW has float32 moments for a bfloat16 parameter and rounds the parameter once a step") {
  const at::Tensor narrow = parameter(5000, at::kBFloat16), wide = narrow.detach().to(at::kFloat).requires_grad_();
  const auto ours = make_optimizer({"adamw_32bit", 0.01}, {narrow}),
             reference = make_optimizer({"adamw_32bit", 0.01}, {wide});
  for (int step = 0; step < 10; ++step) {
    CAPTURE(step);
    narrow.mutable_grad() = at::randn(narrow.sizes()).mul_(0.1).to(at::kBFloat16);
    wide.mutable_grad() = narrow.grad().to(at::kFloat);
    ours->step();
    reference->step();
    CHECK(at::equal(narrow, wide.to(at::kBFloat16)));
    at::NoGradGuard no_grad;
    at::Tensor(wide).copy_(narrow);
  }
  CHECK(ours->state_bytes() == 2 * 4 * 5000);
  for (size_t i = 0; i < 2; ++i) {
    CHECK((ours->state(0)[i].second.scalar_type() == at::kFloat));
    CHECK(at::equal(ours->state(0)[i].second, reference->state(0)[i].second));
  }
}

TEST_CASE("optimizers without complex numbers refuse a complex parameter") {
  const at::Tensor p = at::ones({8}, at::kComplexFloat).requires_grad_();
  for (const char* name : {"adamw_8bit", "adamw_32bit", "paged_adamw_32bit", "adafactor"}) {
    p.mutable_grad() = at::ones_like(p).detach();
    CHECK_THROWS_WITH_AS(make_optimizer({name, 0.1}, {p})->step(),
                         doctest::Contains("knows no complex parameters: use --optimizer adamw or sgd"), UsageError);
  }
}

TEST_CASE("8-bit AdamW updates a parameter in bfloat16 or of another layout as well") {
  const at::Tensor flat = at::randn({4, 8, 16, 16}).requires_grad_();
  const at::Tensor last = flat.detach().clone().contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const at::Tensor slope = at::randn(flat.sizes());
  for (const at::Tensor& p : {flat, last}) {
    BitsandbytesAdamW optimizer({"adamw_8bit", 0.01}, {p}, true, false);
    p.mutable_grad() = slope.clone();
    optimizer.step();
  }
  CHECK(at::equal(flat.detach(), last.detach().contiguous()));
  CHECK(last.is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor half = parameter(6000, at::kBFloat16);
  const at::Tensor before = half.detach().clone();
  BitsandbytesAdamW optimizer({"adamw_8bit", 0.1}, {half}, true, false);
  train(optimizer, {half}, 1);
  CHECK_FALSE(at::equal(half.detach(), before));
}

}  // namespace
}  // namespace memtune::optimizer::block_adamw_test
