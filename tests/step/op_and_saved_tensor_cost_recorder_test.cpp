// Recorded costs must have the memory of a run without a recorder. They must have the moment when each saved tensor is
// unpacked and the moment when it is freed.
#include "core/engine/step/op_and_saved_tensor_cost_recorder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/step/activation_plan_executor.h"
#include "core/model/ops/autocast.h"
#include "core/plan/planner/costs_without_recompute.h"
#include "core/plan/rules/strategy.h"
#include "core/record/trace/private_save.h"
#include "tests/support/lower.h"
#include "tests/support/simulated_device.h"
#include "tests/support/training.h"
namespace memtune::step::step_cost_recorder_test {
namespace {

using plan::RecordedStepCosts;
using tests::Model;
using tests::test_device;
using Kind = RecordedStepCosts::Moment::Kind;

const char* const kModel = R"(
def forward(self, x):
    h = torch.matmul(x, self.a)
    h.mul_(2.0)
    h = torch.sigmoid(h)
    return (x + torch.matmul(torch.dropout(h, 0.5, True), self.b)).sum()
)";

const char* const kBlock = R"(
def forward(self, x):
    h = torch.matmul(x, self.a)
    h.mul_(2.0)
    h = torch.sigmoid(h)
    return x + torch.matmul(torch.dropout(h, 0.5, True), self.b)
)";

const char* const kInPlace = R"(
def forward(self, x):
    h = torch.relu(torch.matmul(x, self.a))
    h = torch.layer_norm(h, [8])
    h.add_(x)
    h = torch.gelu(torch.matmul(h, self.b))
    return torch.dropout_(h, 0.5, True) + x
)";

// Tensors that only the condition reads are saved and freed within the forward.
const char* const kLetsGo = R"(
def forward(self, x):
    h = torch.matmul(x, self.a)
    for i in range(6):
        if bool(torch.sigmoid(torch.matmul(h, self.b)).sum() > 1e30):
            h = h + 1
        h = torch.sigmoid(torch.matmul(h, self.b))
    return h.sum()
)";

struct Recorded {
  explicit Recorded(int passes, const char* code = kModel, int blocks = 1, const char* strategy = "none",
                    bool autocast = false, device::Device& timed = test_device())
      : model(code, blocks), autocast(autocast) {
    const program::Program program =
        tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(test_device()));
    facts = model.surveyed(program);
    plan::Plan plan = plan::make_plan(plan::Strategy::parse(strategy), facts);
    plan.saved_min_bytes = 0;
    ActivationPlanExecutor executor(program, facts, plan, test_device());
    std::vector<at::Tensor> parameters;
    for (const at::Tensor& parameter : model.module().parameters()) parameters.push_back(parameter);
    OpAndSavedTensorCostRecorder recorder(timed, plan, [&] {
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
      return gradients;
    });
    if (&timed != &test_device()) recorder.record_issue_times([&] { return executor.host_time(); });
    executor.set_cost_recorder(&recorder);
    const auto drop_gradients = [&] {
      for (at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    };
    for (int step = 0; step < 2; ++step) {
      drop_gradients();
      recorder.begin_step();
      for (int pass = 0; pass < passes; ++pass) run(program, executor);
      recorder.end_backward();
      recorder.end_optimizer();
      recorder.end_step();
    }
    costs = recorder.costs().value();
    costs.step_ms = 1;                                                 // not measured here
    CHECK((nlohmann::json(costs).get<RecordedStepCosts>() == costs));  // a sweep can read what its trial writes
    executor.set_cost_recorder(nullptr);
    drop_gradients();
    test_device().reset_peak();
    for (int pass = 0; pass < passes; ++pass) run(program, executor);
    peak_bytes = test_device().memory().peak_allocated;
  }

  void run(const program::Program& program, ActivationPlanExecutor& executor) {
    executor.begin_step();
    const at::Tensor input = model.input();  // allocated for the whole step, as in a trial
    at::Tensor loss;
    {
      std::optional<ops::AutocastScope> scope;
      if (autocast) scope.emplace(device::torch_device(test_device()).type(), ops::AutocastState{true, at::kBFloat16});
      const autograd::SavedTensorHooksScope hooks(&executor);
      loss = program::Interpreter(program).run({input}, &executor).toTensor();
    }
    executor.end_forward();
    autograd::backward(loss);
  }

  Model model;
  const bool autocast;
  plan::ProgramFacts facts;
  RecordedStepCosts costs;
  int64_t peak_bytes = 0;
};

int64_t most(const RecordedStepCosts& costs) {
  int64_t bytes = std::max(costs.before_peak_bytes, costs.after_peak_bytes);
  for (const auto& run : costs.runs) bytes = std::max(bytes, run.before_bytes + run.own_bytes);
  for (const auto& moment : costs.moments) bytes = std::max(bytes, moment.peak_bytes);
  return bytes;
}

// A device with a queue, which each hold keeps from starting for 1 ms. The host waits in one op of each step: the
// first hold over it expires.
class HoldingDevice final : public tests::SimulatedDevice {
 public:
  HoldingDevice() : SimulatedDevice(1) {}
  std::unique_ptr<device::ScopedComputeStreamPause> hold_compute() override {
    now_us += 1000;
    return std::make_unique<Hold>(*this, ++holds);
  }
  int holds = 0, held = 0;
  int expires = 0;  // number of the hold

 private:
  struct Hold final : device::ScopedComputeStreamPause {
    Hold(HoldingDevice& device, int number) : device(device), number(number) { CHECK(++device.held == 1); }
    ~Hold() override { --device.held; }
    bool expired() const override { return number == device.expires; }
    HoldingDevice& device;
    int number;
  };
};

TEST_CASE("on a device with a queue the host's time is recorded apart from the device's") {
  HoldingDevice queue;
  const RecordedStepCosts costs = Recorded(1, kBlock, 3, "none", false, queue).costs;
  REQUIRE(costs.has_issue_times());
  CHECK(queue.held == 0);
  CHECK(queue.holds >= 2 * 2);  // of each step, one for the optimizer
  REQUIRE(costs.issue.runs.size() == costs.runs.size());
  REQUIRE(costs.issue.moments.size() == costs.moments.size());
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    CHECK(costs.runs[i].ms == 0);  // no time of a hold
    CHECK(costs.issue.runs[i].ms > 0);
    CHECK(costs.issue.runs[i].ms < costs.runs[i].host_ms);  // without the recorder and the engine
    CHECK_FALSE(costs.issue.runs[i].waits);
  }
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    CHECK(costs.moments[i].ms == 0);
    CHECK((costs.issue.moments[i].ms > 0) == (costs.moments[i].kind == Kind::unpack));
  }
  CHECK(costs.before_ms == 0);
  CHECK(costs.after_ms == 0);
  CHECK(costs.rerun_ms == 0);
  CHECK(costs.issue.before_ms > 0);
  CHECK(costs.issue.engine_ms > 0);
  CHECK_FALSE(Recorded(1, kBlock, 3).costs.has_issue_times());
  CHECK_FALSE(Recorded(1, kBlock, 3, "checkpoint:full", false, queue).costs.has_issue_times());
}

TEST_CASE("an op that waits for the device is known from then on and not held") {
  HoldingDevice queue;
  queue.expires = 1;  // seen at the end of op 0 of the first step
  const RecordedStepCosts costs = Recorded(1, kBlock, 3, "none", false, queue).costs;
  REQUIRE(costs.has_issue_times());
  for (size_t i = 0; i < costs.runs.size(); ++i)
    CHECK(costs.issue.runs[i].waits == (costs.runs[i].op == costs.runs[0].op));
  CHECK(queue.held == 0);
}

TEST_CASE("parameter gradients are recorded as they appear or from the start after an earlier pass") {
  const Recorded one(1, kBlock, 3), two(2, kBlock, 3);
  const int64_t all = 3 * 2 * 8 * 8 * 4;  // blocks, parameters per block, bytes of each
  for (const Recorded* recorded : {&one, &two}) {
    const std::vector<int64_t>& bytes = recorded->costs.gradient_bytes;
    REQUIRE(bytes.size() == recorded->costs.moments.size() + 1);
    CHECK(std::ranges::is_sorted(bytes));
    CHECK(bytes.back() == all);
  }
  CHECK(one.costs.gradient_bytes.front() == 0);
  CHECK(one.costs.gradient_bytes[one.costs.moments.size() / 2] < all);
  CHECK(two.costs.gradient_bytes.front() == all);
}

TEST_CASE("a recorded step has the peak of an unrecorded one") {
  for (const int passes : {1, 2}) {
    const Recorded recorded(passes);
    CHECK(recorded.costs.passes == passes);
    CHECK(most(recorded.costs) == recorded.peak_bytes);
    CHECK(recorded.costs.grain_bytes >= 1);
  }
}

TEST_CASE("the peak after the end of a saved tensor does not include it") {
  const Recorded recorded(1, kBlock, 3);
  int64_t release_ended = 0;
  for (const auto& moment : recorded.costs.moments)
    if (moment.kind == RecordedStepCosts::Moment::Kind::end && moment.peak_bytes < moment.before_bytes) ++release_ended;
  CHECK(release_ended >= 3);
}

// Clears times and the plan, which the comparison ignores.
void forget_times(RecordedStepCosts& costs) {
  for (RecordedStepCosts::Run& run : costs.runs) run.ms = run.host_ms = 0;
  for (RecordedStepCosts::Moment& moment : costs.moments) moment.ms = moment.host_ms = 0;
  costs.step_ms = costs.before_ms = costs.after_ms = costs.rerun_ms = 0;
  costs.rerun_ratio = 1;
  costs.plan = {};
}

RecordedStepCosts kept(int passes, const char* code, const char* strategy, bool autocast) {
  const Recorded recorded(passes, code, 3, strategy, autocast);
  CHECK(most(recorded.costs) <= recorded.peak_bytes);
  RecordedStepCosts costs = recorded.costs;
  CHECK((costs.rerun_ms > 0) == costs.plan.places(plan::TensorPlacement::recompute));
  costs = planner::costs_without_recompute(recorded.facts, costs);
  forget_times(costs);
  return costs;
}

TEST_CASE("costs of a checkpointed step without its recomputation equal those of no checkpointing") {
  for (const char* code : {kBlock, kInPlace})
    for (const bool autocast : {false, true})
      for (const int passes : {1, 2})
        for (const char* strategy : {"checkpoint:full", "checkpoint:op", "checkpoint:every=2"}) {
          INFO(std::string(strategy) << ", passes " << passes << ", autocast " << autocast);
          const RecordedStepCosts none = kept(passes, code, "none", autocast);
          const RecordedStepCosts again = kept(passes, code, strategy, autocast);
          CHECK((again.values == none.values));
          CHECK((again.runs == none.runs));
          CHECK((again.saved == none.saved));
          CHECK((again.moments == none.moments));
          CHECK((again == none));
        }
}

TEST_CASE("a tensor freed within the forward is not mistaken for one that is saved later") {
  const RecordedStepCosts costs = Recorded(1, kLetsGo).costs;
  std::vector<int> ends(costs.saved.size()), unpacks(costs.saved.size());
  for (const RecordedStepCosts::Moment& moment : costs.moments) {
    if (moment.kind == Kind::unpack) CHECK(ends[moment.saved] == 0);
    ++(moment.kind == Kind::end ? ends : unpacks)[moment.saved];
  }
  CHECK(std::ranges::count(ends, 1) == static_cast<int>(costs.saved.size()));
  CHECK(std::ranges::count(unpacks, 0) >= 6);
}

TEST_CASE("every saved tensor is unpacked before its end and each tensor has the op that made it") {
  const RecordedStepCosts costs = Recorded(1).costs;
  REQUIRE(costs.saved.size() >= 4);
  for (int saved = 0; saved < static_cast<int>(costs.saved.size()); ++saved) {
    const auto at = [&](Kind kind) {
      return std::ranges::find_if(costs.moments, [&](const RecordedStepCosts::Moment& moment) {
        return moment.kind == kind && moment.saved == saved;
      });
    };
    CHECK(at(Kind::unpack) < at(Kind::end));
    CHECK(at(Kind::end) != costs.moments.end());
  }
  int writers = 0, privates = 0;
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    for (const int value : costs.runs[i].makes) CHECK(costs.values[value].run == static_cast<int>(i));
    writers += costs.runs[i].writes.empty() ? 0 : 1;
    CHECK(costs.runs[i].ms >= 0);
  }
  for (const RecordedStepCosts::Value& value : costs.values) privates += value.output == kPrivateSave ? 1 : 0;
  CHECK(writers == 1);
  CHECK(privates == 1);  // the mask of dropout
}

}  // namespace
}  // namespace memtune::step::step_cost_recorder_test
