// Tests what a recomputation costs and what it must not do. The conformance suite checks its gradients.
#include "core/engine/checkpoint/recompute_engine.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/support/training.h"
namespace memtune::tests::recompute_engine_test {
namespace {

// Four ops per block make tensors: matmul, sigmoid, matmul, add. The sum is the input of the next block.
const char* const kBlock = R"(
def forward(self, x):
    return x + torch.matmul(torch.sigmoid(torch.matmul(x, self.a)), self.b)
)";

TEST_CASE("every op is recomputed at most once per step") {
  Model model(kBlock, 3);
  // sigmoid's output is saved twice (by sigmoid and by the matmul) and recomputed once from one matmul: 2 recomputed
  // ops per block. No op saves the output of the second matmul.
  CHECK(model.under("checkpoint:full").reruns == 3 * 2);
}

TEST_CASE("a kept matmul is not recomputed") {
  Model model(kBlock, 3);
  CHECK(model.under("checkpoint:op").reruns == 3);               // sigmoid, from the kept first matmul
  CHECK(model.under("checkpoint:op,save=sigmoid").reruns == 0);  // all tensors that autograd saves are kept
}

TEST_CASE("an intermediate tensor that two recomputations share is recomputed once") {
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

TEST_CASE("the peak of a checkpointed model has the activations of one block and not of all") {
  auto peak = [](const std::string& strategy) {
    Model model(kBlock, 12, 64, {"a", "b"}, 1024);
    model.under(strategy);  // gradients exist now, so the next step adds only activations
    test_device().reset_peak();
    int64_t before = test_device().memory().allocated;
    model.under(strategy);
    return test_device().memory().peak_allocated - before;
  };
  // Each block keeps two activations of [1024, 64] floats without checkpointing and one with it.
  int64_t value = 1024 * 64 * 4;
  CHECK(peak("none") - peak("checkpoint:full") >= 11 * value);
  // With nesting, the inputs of two blocks stay and up to five are recomputed on the way. Activations are those of one
  // block at a time.
  CHECK(peak("checkpoint:full") - peak("checkpoint:full,segment=6") >= 4 * value);
}

TEST_CASE("nested checkpointing never recomputes whole blocks whatever the compatibility flag") {
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

TEST_CASE("nested checkpointing recomputes an op at most once on the way and once for its own block") {
  // On the way: all four ops of the first three blocks. For the block itself: two ops of each.
  CHECK(Model(kBlock, 4).under("checkpoint:full,segment=4").reruns == 3 * 4 + 4 * 2);
  CHECK(Model(kBlock, 4).under("checkpoint:full,segment=2").reruns == 2 * 4 + 4 * 2);
}

TEST_CASE("a recomputation leaves the random generator as if it had not run") {
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

TEST_CASE("an op that makes another tensor when recomputed is an error and not a wrong gradient") {
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
  const autograd::SavedStorageConsumerReference use(value,
                                                    autograd::SavedStorageConsumerReference::ConsumerKind::backward);
  instance->outputs.push_back({value, 0, first.dtype(), first.numel()});
  first.reset();
  CHECK_THROWS_WITH_AS(value->bytes(), "running test::grows again returned a different tensor", Error);
}

}  // namespace
}  // namespace memtune::tests::recompute_engine_test
