// Trials measure the optimizer step as well. It must be standard AdamW and free the memory that it used.
#include "core/engine/optimizer/optimizer.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "core/engine/autograd/hooks.h"
#include "core/engine/optimizer/optimizer_in_backward.h"
namespace memtune::optimizer::optimizer_test {
namespace {

at::Tensor parameter(double value, at::ScalarType dtype = at::kDouble) {
  return at::full({3}, value, at::TensorOptions(dtype)).requires_grad_();
}

void set_gradient(const at::Tensor& parameter, double value) {
  parameter.mutable_grad() = at::full_like(parameter, value).detach();
}

TEST_CASE("adamw follows the formula") {
  at::Tensor p = parameter(2);
  auto optimizer = make_optimizer({"adamw", 0.1}, {p});
  double expected = 2, first = 0, second = 0;
  for (int step = 1; step <= 4; ++step) {
    double gradient = 0.5 * step - 1.2;
    set_gradient(p, gradient);
    optimizer->step();
    first = 0.9 * first + 0.1 * gradient;
    second = 0.999 * second + 0.001 * gradient * gradient;
    expected -= 0.1 * 0.01 * expected;
    double corrected = std::sqrt(second / (1 - std::pow(0.999, step)));
    expected -= 0.1 * first / (1 - std::pow(0.9, step)) / (corrected + 1e-8);
    CHECK(p[0].item<double>() == doctest::Approx(expected).epsilon(1e-9));
  }
}

TEST_CASE("sgd subtracts the gradient times the learning rate") {
  at::Tensor p = parameter(2);
  auto optimizer = make_optimizer({"sgd", 0.5}, {p});
  set_gradient(p, 3);
  optimizer->step();
  CHECK(p[2].item<double>() == 0.5);
}

TEST_CASE("a step frees gradients and leaves parameters without a gradient unchanged") {
  at::Tensor used = parameter(1), unused = parameter(1);
  for (const char* name : {"adamw", "sgd"}) {
    auto optimizer = make_optimizer({name, 0.1}, {used, unused});
    set_gradient(used, 1);
    optimizer->step();
    CHECK_FALSE(used.grad().defined());
    CHECK(used[0].item<double>() != 1);
    CHECK(unused[0].item<double>() == 1);
    CHECK(used.requires_grad());
  }
}

TEST_CASE("parameters of different dtypes are updated in one step") {
  at::Tensor wide = parameter(1, at::kFloat), narrow = parameter(1, at::kBFloat16);
  auto optimizer = make_optimizer({"adamw", 0.25}, {wide, narrow});
  set_gradient(wide, 1);
  set_gradient(narrow, 1);
  optimizer->step();
  // 1 - 0.25 * 0.01 - 0.25 * 1. The narrow one is rounded to eight bits.
  CHECK(wide[0].item<double>() == doctest::Approx(0.7475).epsilon(1e-6));
  CHECK(narrow[0].item<double>() == doctest::Approx(0.7475).epsilon(0.004));
}

TEST_CASE("a complex parameter is trained as its two parts like in PyTorch") {
  for (const char* name : {"adamw", "sgd"}) {
    const at::Tensor parts = at::tensor({1.0, -2.0}), slopes = at::tensor({3.0, 0.5});
    at::Tensor whole = at::view_as_complex(parts.clone()).requires_grad_(), apart = parts.clone().requires_grad_();
    auto optimizer = make_optimizer({name, 0.1}, {whole, apart});
    for (int step = 0; step < 3; ++step) {
      // Backward gives the conjugate of a conjugate.
      whole.mutable_grad() = at::conj(at::conj(at::view_as_complex(slopes.clone())).resolve_conj());
      apart.mutable_grad() = slopes.clone();
      optimizer->step();
    }
    CHECK(at::equal(at::view_as_real(whole.detach()), apart.detach()));
    CHECK_FALSE(at::equal(apart.detach(), parts));
    CHECK(optimizer->state_bytes() == (name == std::string("sgd") ? 0 : 2 * (2 * 16 + 4)));
  }
}

TEST_CASE("zeros without memory from autograd count as a gradient of zeros") {
  for (const char* name : {"adamw", "sgd"}) {
    at::Tensor p = parameter(2);
    p.mutable_grad() = at::_efficientzerotensor({3}, at::kDouble);
    make_optimizer({name, 0.1}, {p})->step();
    CHECK(p[0].item<double>() == doctest::Approx(name == std::string("sgd") ? 2 : 2 - 0.1 * 0.01 * 2));
  }
}

TEST_CASE("sgd takes sparse gradients and adamw refuses them and names sgd") {
  at::Tensor table = at::ones({4, 2}, at::kDouble).requires_grad_();
  const auto set = [&] {
    table.mutable_grad() = at::sparse_coo_tensor(at::ones({1, 2}, at::kLong), at::ones({2, 2}, at::kDouble), {4, 2});
  };
  set();
  make_optimizer({"sgd", 0.25}, {table})->step();
  CHECK(table[1][0].item<double>() == 0.5);  // the row was used twice
  CHECK(table[0][0].item<double>() == 1);
  CHECK_FALSE(table.grad().defined());
  set();
  CHECK_THROWS_WITH_AS(make_optimizer({"adamw", 0.25}, {table})->step(),
                       "the gradient of a parameter [4, 2] is sparse, and adamw updates every element: make it dense "
                       "(embeddings: sparse=False), or use --optimizer sgd",
                       UsageError);
}

TEST_CASE("a step without gradients or parameters does nothing") {
  at::Tensor p = parameter(1);
  make_optimizer({"adamw", 0.1}, {p})->step();
  make_optimizer({"sgd", 0.1}, {})->step();
  CHECK(p[0].item<double>() == 1);
}

TEST_CASE("an update of each parameter in backward gives the same result as one after it") {
  const auto trained = [](bool in_backward) {
    at::manual_seed(3);
    const std::vector<at::Tensor> weights = {at::randn({8, 8}).requires_grad_(), at::randn({8, 8}).requires_grad_()};
    const auto optimizer = make_optimizer({"adamw", 0.1}, weights);
    std::optional<OptimizerInBackward> updates;
    if (in_backward) updates.emplace(*optimizer);
    for (int step = 0; step < 3; ++step) {
      // The second weight is used twice, so it is updated after the backward of both uses.
      const at::Tensor hidden = at::ones({4, 8}).matmul(weights[0]).tanh().matmul(weights[1]).tanh();
      autograd::backward(hidden.matmul(weights[1]).square().mean());
      CHECK(weights[0].grad().defined() == !in_backward);
      optimizer->step();
    }
    return at::cat({weights[0].detach(), weights[1].detach()});
  };
  CHECK(at::equal(trained(true), trained(false)));
  const at::Tensor p = parameter(1);
  const auto optimizer = make_optimizer({"sgd", 1}, {p});
  { const OptimizerInBackward updates(*optimizer); }
  autograd::backward(p.sum());
  CHECK(p.grad().defined());  // no update in backward any more
}

TEST_CASE("states made before the first step are those that PyTorch makes in it") {
  for (const char* name : {"adamw", "adafactor", "adamw_8bit", "adamw_32bit", "paged_adamw_32bit"})
    for (const bool in_backward : {false, true}) {
      CAPTURE(name);
      CAPTURE(in_backward);
      const at::Tensor used = parameter(1, at::kFloat), unused = parameter(1, at::kFloat),
                       frozen = parameter(1, at::kFloat).requires_grad_(false);
      const auto optimizer = make_optimizer({name, 0.1}, {unused, used, frozen});
      const auto has_state = [&](size_t i) { return !optimizer->state(i).empty(); };
      std::optional<OptimizerInBackward> updates;
      if (in_backward) updates.emplace(*optimizer);
      optimizer->make_states();
      CHECK(has_state(0));
      CHECK(has_state(1));
      CHECK_FALSE(has_state(2));
      const int64_t bytes = optimizer->state_bytes();
      autograd::backward(used.square().sum());
      optimizer->step();
      CHECK_FALSE(has_state(0));
      CHECK(has_state(1));
      CHECK(optimizer->state_bytes() * 2 == bytes);
      CHECK(optimizer->state(1).back().second.item<double>() == 1);  // the step
      autograd::backward((used * unused).sum());
      optimizer->step();
      CHECK(has_state(0));
      CHECK(optimizer->state(1).back().second.item<double>() == 2);
    }
}

TEST_CASE("states made before the first step leave loaded ones as they are") {
  const at::Tensor p = parameter(1);
  const auto optimizer = make_optimizer({"adamw", 0.1}, {p});
  optimizer->make_state(0);
  at::Tensor(optimizer->state(0).front().second).fill_(5);
  optimizer->make_states();
  optimizer->step();  // without a gradient
  REQUIRE_FALSE(optimizer->state(0).empty());
  CHECK(optimizer->state(0).front().second[0].item<double>() == 5);
}

TEST_CASE("gradients split over processes are clipped by the norm over all processes") {
  const at::Tensor a = parameter(4);
  a.mutable_grad() = at::full({4}, 3.0f);
  at::Tensor asked;
  clip_gradients({a}, 1, [&](const at::Tensor& here) {
    asked = here;
    return here + 4;  // `here` is 6
  });
  CHECK(asked.item<float>() == doctest::Approx(6));
  CHECK(a.grad()[0].item<float>() == doctest::Approx(0.3));
  bool came = false;
  clip_gradients({parameter(2)}, 1, [&](const at::Tensor& here) {
    came = !here.defined();
    return at::ones({});
  });
  CHECK(came);  // other processes wait for it
}

TEST_CASE("gradients are clipped to one joint norm and only if theirs is larger") {
  const at::Tensor a = parameter(1), b = parameter(1, at::kFloat);
  for (const double largest : {1.0, 100.0}) {
    CAPTURE(largest);
    set_gradient(a, 3);
    set_gradient(b, 4);
    clip_gradients({a, b, parameter(1)}, largest);
    const double factor = std::min(1.0, largest / (std::sqrt(3 * 9 + 3 * 16) + 1e-6));
    CHECK(a.grad()[1].item<double>() == doctest::Approx(3 * factor).epsilon(1e-6));
    CHECK(b.grad()[1].item<double>() == doctest::Approx(4 * factor).epsilon(1e-6));
  }
  set_gradient(a, 3);
  make_optimizer({"sgd", 1, 0.5}, {a})->step();
  CHECK(a[0].item<double>() == doctest::Approx(1 - 0.5 / std::sqrt(3)).epsilon(1e-5));
}

TEST_CASE("adafactor follows the formula and stores a row and a column per matrix") {
  const at::Tensor p = at::full({2, 3}, 1.0, at::kDouble).requires_grad_(), vector = parameter(1);
  auto optimizer = make_optimizer({"adafactor", 0.1}, {p, vector});
  p.mutable_grad() = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}).view({2, 3}).to(at::kDouble);
  set_gradient(vector, 2);
  optimizer->step();
  CHECK(optimizer->state_bytes() == (2 + 3 + 3) * 8);
  CHECK(vector[0].item<double>() == doctest::Approx(1 - 0.1));  // its update has a mean square of 1
  // The decay of the first step is 0, so means of rows and columns come from this gradient alone.
  const double row = (1 + 4 + 9) / 3.0, other = (16 + 25 + 36) / 3.0, column = (4 + 25) / 2.0;
  const double update = 2 / std::sqrt(column) / std::sqrt(row / ((row + other) / 2));
  double squares = 0;
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 3; ++k) {
      const double g = 3 * i + k + 1, c = (std::pow(k + 1, 2) + std::pow(k + 4, 2)) / 2;
      squares += g * g / c / ((i == 0 ? row : other) / ((row + other) / 2));
    }
  CHECK(p[0][1].item<double>() == doctest::Approx(1 - 0.1 * update / std::max(1.0, std::sqrt(squares / 6))));
}

TEST_CASE("the error for an unknown optimizer lists the known ones") {
  CHECK_THROWS_WITH_AS(make_optimizer({"adam", 0.1}, {}),
                       "unknown optimizer 'adam'; did you mean 'adamw'? Known: adamw, adamw_8bit, adamw_32bit, "
                       "paged_adamw_32bit, paged_adamw_8bit, adafactor, sgd",
                       UsageError);
}

}  // namespace
}  // namespace memtune::optimizer::optimizer_test
