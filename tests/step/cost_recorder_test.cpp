// Costs tell the same memory as a run without a recorder, and when every saved tensor was asked for and let go.
#include "core/step/cost_recorder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/base/private_output.h"
#include "core/step/executor.h"
#include "tests/support/lower.h"
#include "tests/support/training.h"

namespace memtune::step {
namespace {

using config::StepCosts;
using tests::Model;
using tests::test_device;
using Kind = StepCosts::Moment::Kind;

const char* const kModel = R"(
def forward(self, x):
    h = torch.matmul(x, self.a)
    h.mul_(2.0)
    h = torch.sigmoid(h)
    return (x + torch.matmul(torch.dropout(h, 0.5, True), self.b)).sum()
)";

// What only the condition reads is saved and let go within the forward.
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
  explicit Recorded(int passes, const char* code = kModel) : model(code, 1) {
    const program::Program program =
        tests::lower(model.module(), frontend::Loss::returned, "", device::torch_device(test_device()));
    config::ProgramFacts facts = model.surveyed(program);
    config::Plan none;
    none.saved_min_bytes = 0;
    Executor executor(program, facts, none, test_device());
    CostRecorder recorder(test_device());
    executor.set_cost_recorder(&recorder);
    for (int step = 0; step < 2; ++step) {
      recorder.begin_step();
      for (int pass = 0; pass < passes; ++pass) run(program, executor);
      recorder.end_backward();
      recorder.end_step();
    }
    costs = recorder.costs().value();
    executor.set_cost_recorder(nullptr);
    test_device().reset_peak();
    for (int pass = 0; pass < passes; ++pass) run(program, executor);
    peak_bytes = test_device().memory().peak_allocated;
  }

  void run(const program::Program& program, Executor& executor) {
    executor.begin_step();
    at::Tensor loss;
    {
      const autograd::HookScope hooks(&executor);
      loss = program::Interpreter(program).run({model.input()}, &executor).toTensor();
    }
    executor.end_forward();
    autograd::backward(loss);
  }

  Model model;
  StepCosts costs;
  int64_t peak_bytes = 0;
};

int64_t most(const StepCosts& costs) {
  int64_t bytes = std::max(costs.before_peak_bytes, costs.after_peak_bytes);
  for (const auto& run : costs.runs) bytes = std::max(bytes, run.before_bytes + run.own_bytes);
  for (const auto& moment : costs.moments) bytes = std::max(bytes, moment.peak_bytes);
  return bytes;
}

TEST_CASE("what is recorded of a step has the peak of one that nobody records") {
  for (const int passes : {1, 2}) {
    const Recorded recorded(passes);
    CHECK(recorded.costs.passes == passes);
    CHECK(most(recorded.costs) == recorded.peak_bytes);
    CHECK(recorded.costs.grain_bytes >= 1);
  }
}

TEST_CASE("what is let go within the forward is not taken for what is saved later") {
  const StepCosts costs = Recorded(1, kLetsGo).costs;
  std::vector<int> ends(costs.saved.size()), unpacks(costs.saved.size());
  for (const StepCosts::Moment& moment : costs.moments) {
    if (moment.kind == Kind::unpack) CHECK(ends[moment.saved] == 0);
    ++(moment.kind == Kind::end ? ends : unpacks)[moment.saved];
  }
  CHECK(std::ranges::count(ends, 1) == static_cast<int>(costs.saved.size()));
  CHECK(std::ranges::count(unpacks, 0) >= 6);
}

TEST_CASE("every saved value is asked for before it is let go, and each value has the op that made it") {
  const StepCosts costs = Recorded(1).costs;
  REQUIRE(costs.saved.size() >= 4);
  for (int saved = 0; saved < static_cast<int>(costs.saved.size()); ++saved) {
    const auto at = [&](Kind kind) {
      return std::ranges::find_if(
          costs.moments, [&](const StepCosts::Moment& moment) { return moment.kind == kind && moment.saved == saved; });
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
  for (const StepCosts::Value& value : costs.values) privates += value.output == kPrivate ? 1 : 0;
  CHECK(writers == 1);
  CHECK(privates == 1);  // the mask of dropout
}

}  // namespace
}  // namespace memtune::step
