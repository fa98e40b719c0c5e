#include "core/measure/trial/compute_copy_disk_interference_probe.h"

#include <doctest/doctest.h>

#include "tests/support/queue_device.h"
namespace memtune::tests::interference_probe_test {
namespace {

struct IdleRunner final : trial::ForwardBackwardRunner {
  device::Device& device() override { return queues; }
  const trial::NamedParameters& parameters() const override { return none; }
  StepWork work() const override { return {}; }
  double untouched_loss() override { return 0; }
  at::Tensor forward_backward() override { return {}; }
  at::Tensor untouched_step() override { return {}; }

  QueueDevice queues{QueueDevice::Compute::queued};
  trial::NamedParameters none;
};

int steps_of(double step_ms) {
  IdleRunner runner;
  int steps = 0;
  auto copies = std::make_unique<profiler::LinkLoadGenerator>(runner.queues, profiler::LinkBandwidth{50, 50}, 0.001);
  trial::ComputeCopyDiskInterferenceProbe loaded(runner, std::move(copies), step_ms, [&] {
    ++steps;
    runner.queues.synchronize();
    return step_ms;
  });
  loaded.copy_slowdown();
  return steps;
}

TEST_CASE("the probe measures steps during copies until it has enough samples or its time is up") {
  constexpr int kFirst = 1, kPair = 2;
  CHECK(steps_of(2000) == kFirst + 3 * kPair);  // minimum
  CHECK(steps_of(100) == kFirst + 5 * kPair);
  CHECK(steps_of(1) == kFirst + 8 * kPair);  // maximum
}

TEST_CASE("the probe measures nothing on an emulated device") {
  IdleRunner runner;
  trial::ComputeCopyDiskInterferenceProbe loaded(
      runner, trial::ComputeCopyDiskInterferenceProbe::make_copies(runner.queues, {50, 50}, 10), 10, []() -> double {
        FAIL("a step");
        return 0;
      });
  CHECK(loaded.copy_slowdown() == 0);
}

}  // namespace
}  // namespace memtune::tests::interference_probe_test
