// What a recomputation costs and what it must not do; that its gradients are right is the conformance suite's business.
#include "core/engine/checkpoint/recompute_engine.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/support/training.h"

namespace memtune::tests {
namespace {

// Four ops a block make values: matmul, sigmoid, matmul, add. The sum is the next block's input.
const char* const kBlock = R"(
def forward(self, x):
    return x + torch.matmul(torch.sigmoid(torch.matmul(x, self.a)), self.b)
)";

TEST_CASE("every op is run again at most once a step") {
  Model model(kBlock, 3);
  // sigmoid's output is saved twice (by itself and by the matmul) and made once, from one matmul: 2 reruns a block. The
  // second matmul's output is saved by nobody.
  CHECK(model.under("checkpoint:full").reruns == 3 * 2);
}

TEST_CASE("a kept matmul is not run again") {
  Model model(kBlock, 3);
  CHECK(model.under("checkpoint:op").reruns == 3);               // sigmoid, from the kept first matmul
  CHECK(model.under("checkpoint:op,save=sigmoid").reruns == 0);  // all that autograd saves is kept
}

TEST_CASE("an intermediate that two recomputations share is made once") {
  const char* source = R"(
def forward(self, x):
    shared = torch.matmul(x, self.a) * 0.5
    left = torch.sigmoid(shared)
    right = torch.tanh(shared)
    return x + torch.matmul(left, self.b) + right
)";
  Model model(source, 2);
  // matmul, mul, sigmoid, tanh: once each.
  CHECK(model.under("checkpoint:full").reruns == 2 * 4);
}

TEST_CASE("peak memory of a checkpointed model is one block's values, not all of them") {
  auto peak = [](const std::string& strategy) {
    Model model(kBlock, 12, 64, {"a", "b"}, 1024);
    model.under(strategy);  // gradients are there: what follows adds only values
    test_device().reset_peak();
    int64_t before = test_device().memory().allocated;
    model.under(strategy);
    return test_device().memory().peak_allocated - before;
  };
  // Two values of [1024, 64] floats a block stay without it, one with it.
  int64_t value = 1024 * 64 * 4;
  CHECK(peak("none") - peak("checkpoint:full") >= 11 * value);
  // Nested, two blocks' inputs stay and up to five are made on the way, but the values of one block at a time.
  CHECK(peak("checkpoint:full") - peak("checkpoint:full,segment=6") >= 4 * value);
}

TEST_CASE("nested, blocks are not run again as a whole, whatever the habit") {
  Model model(kBlock, 6);
  const program::Program program =
      tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(test_device()));
  const auto facts = model.surveyed(program);
  const Step plain = model.plain();
  for (const int segment : {2, 3, 6}) {
    CAPTURE(segment);
    auto plan = plan::make_plan(plan::Strategy::parse("checkpoint:full,segment=" + std::to_string(segment)), facts);
    plan.saved_min_bytes = plan.transfer.min_bytes = 0;
    const int64_t reruns = model.under(program, facts, plan).reruns;
    plan.transfer.compatibility.whole_blocks = true;
    const Step whole = model.under(program, facts, plan);
    CHECK(whole.reruns == reruns);
    CHECK(same(whole, plain));
  }
}

TEST_CASE("nested, an op of a segment is run again at most once in passing and once for its own block") {
  // In passing: all four ops of the first three blocks. For the block's own sake: two ops of each.
  CHECK(Model(kBlock, 4).under("checkpoint:full,segment=4").reruns == 3 * 4 + 4 * 2);
  CHECK(Model(kBlock, 4).under("checkpoint:full,segment=2").reruns == 2 * 4 + 4 * 2);
}

TEST_CASE("the generator goes on after a rerun as if there had been none") {
  const char* source = R"(
def forward(self, x):
    return x + torch.matmul(torch.dropout(torch.sigmoid(x), 0.5, True), self.a)
)";
  auto next_number = [&](const std::string& strategy) {
    Model model(source, 3, 8, {"a"});
    model.under(strategy);
    return at::rand({1}, at::TensorOptions(device::torch_device(test_device()))).item<float>();
  };
  CHECK(next_number("checkpoint:full") == next_number("none"));
}

TEST_CASE("an op that makes another tensor the second time is an error, not a wrong gradient") {
  checkpoint::RecomputeEngine recompute(test_device(), /*nested=*/false);
  auto options = at::TensorOptions(device::torch_device(test_device()));
  program::Op op;
  op.name = "test::grows";
  int64_t runs = 2;
  op.run = [&](program::Stack& stack) { stack = {at::ones({++runs}, options)}; };
  auto instance = std::make_shared<checkpoint::RecordedOp>(recompute);
  instance->op = &op;
  at::Tensor first = at::ones({2}, options);
  auto value = std::make_shared<autograd::SavedStorage>(first.storage(), autograd::SavedStorage::Origin{}, instance);
  const autograd::ConsumerHandle use(value, autograd::ConsumerHandle::ConsumerKind::backward);
  instance->outputs.push_back({value, 0, first.dtype(), first.numel()});
  first.reset();
  CHECK_THROWS_WITH_AS(value->bytes(), "running test::grows again made another tensor than before", Error);
}

}  // namespace
}  // namespace memtune::tests
