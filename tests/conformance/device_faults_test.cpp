// The device fails during a training step, at every call, once or permanently. The step gives the bits of plain
// autograd or ends in a typed error, also through autograd's backward. No destructor throws, and nothing is left
// behind.
#include <doctest/doctest.h>

#include <string>

#include "core/base/error.h"
#include "tests/support/failing_device.h"
#include "tests/support/skip.h"
#include "tests/support/training.h"
#include "tests/support/watchdog.h"
namespace memtune::tests::device_faults_test {
namespace {

constexpr const char* kSource = R"(
def forward(self, x):
    return x + torch.matmul(torch.tanh(torch.matmul(x, self.a)), self.b)
)";

enum class End { right, wrong, device_error, out_of_host_memory, other };

class FailingTraining {
 public:
  explicit FailingTraining(const std::string& strategy)
      : program_(tests::lower(model_.module(), frontend::LossKind::returned, "", device::torch_device(test_device()))),
        facts_(model_.surveyed(program_)),
        plan_(plan::make_plan(plan::Strategy::parse(strategy), facts_)),
        plain_(model_.plain()) {
    plan_.saved_min_bytes = plan_.transfer.min_bytes = 0;
    model_.clear();
  }

  End step(FailingDevice& device) {
    const End end = train(device);
    model_.clear();
    CHECK(device.slabs() == 0);
    return end;
  }

 private:
  End train(FailingDevice& device) {
    try {
      const Step step = model_.under(program_, facts_, plan_, test_tiers(plan_), device);
      CHECK(step.leased_after == 0);
      return same(step, plain_) ? End::right : End::wrong;
    } catch (const OutOfHostMemoryError&) {
      return End::out_of_host_memory;
    } catch (const DeviceError&) {
      return End::device_error;
    } catch (const std::exception& error) {
      MESSAGE(error.what());
      return End::other;
    }
  }

  Model model_{kSource, /*blocks=*/3};
  program::Program program_;
  plan::ProgramFacts facts_;
  plan::Plan plan_;
  Step plain_;
};

TEST_CASE("a device that fails in a step ends it with a typed error or the gradients are right") {
  if (!test_device().emulated()) MEMTUNE_SKIP("the failing device plays the CPU's part");
  for (const char* strategy : {"offload:stream", "offload:sync", "offload:group", "checkpoint:full,inputs=host",
                               "checkpoint:full,blocks=0+offload:stream,blocks=1-", "offload:stream,tier=disk"}) {
    FailingTraining training(strategy);
    const int64_t before = test_device().memory().allocated;
    for (const bool for_good : {false, true}) {
      int at = 1, failed = 0;
      for (bool struck = true; struck; ++at) {
        INFO(strategy << (for_good ? " from call " : " at call ") << at);
        const test::Watchdog watchdog(strategy);
        FailingDevice device(at, for_good);
        const End end = training.step(device);
        CHECK((end == End::right || end == End::device_error || end == End::out_of_host_memory));
        failed += end != End::right;
        struck = device.calls() >= at;
        CHECK(test_device().memory().allocated == before);
      }
      CAPTURE(strategy);
      CHECK(at > 15);
      if (for_good) CHECK(failed > at / 2);
    }
  }
}

}  // namespace
}  // namespace memtune::tests::device_faults_test
