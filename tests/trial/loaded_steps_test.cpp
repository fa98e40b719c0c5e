// Why: a step of several ranks is one step. A rank that takes one more waits for others that have gone on, for ever.
#include "core/trial/loaded_steps.h"

#include <doctest/doctest.h>

#include "tests/support/queue_device.h"

namespace memtune::tests {
namespace {

// One of several ranks, of which the slowest wants more steps as often as `others` says.
struct AskingRunner final : trial::Runner {
  explicit AskingRunner(int others) : others(others) {}
  device::Device& device() override { return queues; }
  const trial::NamedParameters& parameters() const override { return none; }
  Work work() const override { return {}; }
  double untouched_loss() override { return 0; }
  at::Tensor forward_backward() override { return {}; }
  at::Tensor untouched_step() override { return {}; }
  bool any_rank(bool here) override { return here || others-- > 0; }

  QueueDevice queues{QueueDevice::Compute::queued};
  trial::NamedParameters none;
  int others;
};

int steps_of(double step_ms, int others) {
  AskingRunner runner(others);
  int steps = 0;
  auto copies = std::make_unique<profiler::LinkLoad>(runner.queues, profiler::Link{50, 50}, 0.001);
  trial::LoadedSteps loaded(runner, std::move(copies), step_ms, [&] {
    ++steps;
    runner.queues.synchronize();
    return step_ms;
  });
  loaded.copy_slowdown();
  return steps;
}

TEST_CASE("steps beside copies go on for as long as any rank has not seen enough of them") {
  constexpr int kFirst = 1, kPair = 2;
  CHECK(steps_of(2000, 0) == kFirst + 3 * kPair);  // at least
  CHECK(steps_of(300, 0) == kFirst + 5 * kPair);
  CHECK(steps_of(2000, 2) == kFirst + 5 * kPair);
  CHECK(steps_of(1, 0) == kFirst + 8 * kPair);  // at most
  CHECK(steps_of(2000, 100) == kFirst + 8 * kPair);
}

TEST_CASE("on a device that is played nothing is measured beside copies") {
  AskingRunner runner(0);
  trial::LoadedSteps loaded(runner, trial::LoadedSteps::make_copies(runner.queues, {50, 50}, 10), 10, []() -> double {
    FAIL("a step");
    return 0;
  });
  CHECK(loaded.copy_slowdown() == 0);
}

}  // namespace
}  // namespace memtune::tests
