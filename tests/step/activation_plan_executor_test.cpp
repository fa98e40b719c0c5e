// Tests what the executor does with each kind of saved tensor, and that an error of an engine leaves nothing behind.
// The conformance suite checks gradients.
#include "core/engine/step/activation_plan_executor.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/model/ops/autocast.h"
#include "tests/support/lower.h"
#include "tests/support/queue_device.h"
#include "tests/support/skip.h"
#include "tests/support/training.h"
namespace memtune::step::plan_executor_test {
namespace {

using tests::Model;
using tests::test_device;

const char* const kBlock = R"(
def forward(self, x):
    return x + torch.matmul(torch.sigmoid(torch.matmul(x, self.a)), self.b)
)";
const char* const kFlattenedBlock = R"(
def forward(self, x):
    return (x + torch.matmul(torch.sigmoid(torch.matmul(x, self.a)), self.b)).flatten(1)
)";
const char* const kSavingBlock = R"(
def forward(self, x):
    return x + torch.sin(torch.sin(torch.sin(torch.sin(torch.matmul(x, self.a)))))
)";
const char* const kSizedBlock = R"(
def forward(self, x):
    rows = x.size(0)
    return (x + torch.matmul(torch.sigmoid(torch.matmul(x, self.a)), self.b)).view(rows, -1)
)";

// Copies end only when compute waits for them. Memory figures are those of the real tensors.
struct LateDevice final : tests::QueueDevice {
  LateDevice() : QueueDevice(Compute::caller) {}
  device::AllocatorStats memory() const override { return test_device().memory(); }
  void reset_peak() override { test_device().reset_peak(); }
};

// A forward of `model` under the strategy, and what the cases inspect after it.
struct Forward {
  Forward(Model& model, const std::string& strategy, int64_t host_budget_bytes = 0)
      : program(tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(test_device()))),
        facts(model.surveyed(program)),
        plan(plan::make_plan(plan::Strategy::parse(strategy), facts)) {
    plan.saved_min_bytes = plan.transfer.min_bytes = 0;
    remake(host_budget_bytes);
  }

  void remake(int64_t host_budget_bytes = 0, device::Device& device = test_device()) {
    HostBudgetAndScratchStore tiers;
    tiers.host_budget_bytes = host_budget_bytes;
    executor = std::make_unique<ActivationPlanExecutor>(program, facts, plan, device, std::move(tiers));
  }

  at::Tensor run(const at::Tensor& input) {
    executor->begin_step();
    const autograd::SavedTensorHooksScope hooks(executor.get());
    at::Tensor loss = program::Interpreter(program).run({input}, executor.get()).toTensor();
    executor->end_forward();
    return loss;
  }

  program::Program program;
  plan::ProgramFacts facts;
  plan::Plan plan;
  std::unique_ptr<ActivationPlanExecutor> executor;
};

TEST_CASE("a tensor offloaded to CPU is reloaded without recomputation and its CPU memory is freed") {
  Model model(kBlock, 3);
  Forward forward(model, "offload:stream");
  at::Tensor loss = forward.run(model.input());
  CHECK(forward.executor->tier().pool().leased_bytes() > 0);
  autograd::backward(loss);
  loss.reset();
  CHECK(forward.executor->reruns() == 0);
  CHECK(forward.executor->offload().counters().in_bytes > 0);
  CHECK(tests::leased_at_rest(*forward.executor) == 0);
}

// rrelu saves its noise before it draws it. On the compute stream a copy has ended when it is issued.
TEST_CASE("a tensor that an op saves and then writes is offloaded after the op returned") {
  Model model(R"(
def forward(self, x):
    return torch.rrelu(torch.matmul(x, self.a), 0.1, 0.3, True)
)",
              3);
  const auto gradient = [&](Forward& forward) {
    at::manual_seed(11);
    const at::Tensor input = model.input().detach().requires_grad_();
    at::Tensor loss = forward.run(input);
    autograd::backward(loss);
    return input.grad();
  };
  Forward none(model, "none"), moved(model, "offload:torchtune");
  moved.plan.transfer.side_stream = false;
  moved.remake();
  CHECK(at::equal(gradient(moved), gradient(none)));
  CHECK(moved.executor->offload().counters().out_bytes > 0);
}

TEST_CASE("a block that first reads the size of its input offloads it once") {
  const auto moved = [](const char* block) {
    Model model(block, 3);
    Forward forward(model, "checkpoint:full,inputs=host");
    at::Tensor loss = forward.run(model.input());
    autograd::backward(loss);
    return forward.executor->offload().counters().out_bytes;
  };
  CHECK(moved(kFlattenedBlock) > 0);
  CHECK(moved(kSizedBlock) == moved(kFlattenedBlock));
}

TEST_CASE("full CPU memory ends the forward and leaves no consumer of the refused tensor") {
  Model model(kBlock, 3);
  const int64_t before = test_device().memory().allocated;
  Forward forward(model, "offload:stream", /*host_budget_bytes=*/4096);
  CHECK_THROWS_AS(forward.run(model.input()), OutOfHostMemoryError);
  CHECK(tests::leased_at_rest(*forward.executor) == 0);
  CHECK(test_device().memory().allocated == before);
}

TEST_CASE("a forward that throws in an op leaves no saved tensor waiting and the next step is right") {
  Model model(kBlock, 2);
  Forward forward(model, "checkpoint:full");
  const at::Tensor wrong = at::ones({4, 3}, model.input().options());
  CHECK_THROWS(forward.run(wrong));
  const auto expected = model.plain().loss;
  CHECK(at::equal(forward.run(model.input()).detach(), expected));
}

TEST_CASE("held tensors are listed after the forward and none is held without the graph") {
  Model model(kBlock, 2);
  Forward forward(model, "checkpoint:full");
  at::Tensor loss = forward.run(model.input());
  const auto held = [&] {
    int64_t sum = 0;
    forward.executor->values().visit_held([&](const autograd::SavedStorage&, int64_t bytes) { sum += bytes; });
    return sum;
  };
  CHECK(held() > 0);
  CHECK_FALSE(forward.executor->largest_holders(3).empty());
  loss.reset();
  CHECK(held() == 0);
}

TEST_CASE("cast copies of a checkpointed block's weights are freed after forward and recomputed") {
  constexpr int kBlocks = 3, kWidth = 64;
  constexpr int64_t kCopies = (kBlocks * 2 - 1) * kWidth * kWidth * 2;  // the model's own input needs no gradient
  Model model(kBlock, kBlocks, kWidth);
  const auto gradients_under = [&](const std::string& strategy, int64_t& held) {
    Forward forward(model, strategy);
    const int64_t before = test_device().memory().allocated;
    at::Tensor loss;
    {
      const ops::AutocastScope autocast(device::torch_device(test_device()).type(), {true, at::kBFloat16});
      loss = forward.run(model.input());
    }
    held = test_device().memory().allocated - before;
    autograd::backward(loss);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model.module().parameters()) {
      gradients.push_back(parameter.grad());
      parameter.mutable_grad().reset();
    }
    return gradients;
  };
  int64_t held = 0;
  const auto kept = gradients_under("none", held);
  CHECK(held > kCopies);
  const auto made_again = gradients_under("checkpoint:full", held);
  CHECK(held < kCopies / 2);
  for (size_t i = 0; i < kept.size(); ++i) CHECK(at::equal(kept[i], made_again[i]));
}

// An op saves its inputs before its kernel runs. In the step to learn from, these saves free older sources, and the op
// uses their memory. In later steps nothing is freed, and the op needs memory of its own.
TEST_CASE("steps that delay freeing of sources have no higher peak than one that frees them at once") {
  if (!test_device().emulated()) MEMTUNE_SKIP("the device whose copies are late is one of the CPU");
  Model model(kSavingBlock, /*blocks=*/8, /*width=*/64, {"a"}, /*rows=*/64);
  LateDevice device;
  Forward forward(model, "offload:stream");
  forward.remake(0, device);
  std::vector<int64_t> peaks;
  for (int step = 0; step < 4; ++step) {
    for (at::Tensor parameter : model.module().parameters()) parameter.mutable_grad().reset();
    device.reset_peak();
    if (step == 1) forward.executor->begin_learning();
    autograd::backward(forward.run(model.input()));
    peaks.push_back(device.memory().peak_allocated);
    if (step == 1) forward.executor->end_learning();
  }
  REQUIRE(forward.executor->offload().learned());
  CHECK(peaks[2] <= peaks[0]);
  CHECK(peaks[3] <= peaks[0]);
}

}  // namespace
}  // namespace memtune::step::plan_executor_test
