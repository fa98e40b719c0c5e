// A device that fails stays failed: every call from the n-th on throws. Whatever n, the step ends with that error, and
// what dies on the way neither throws nor keeps anything.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
#include "core/offload/offload.h"
#include "tests/support/queue_device.h"

namespace memtune::offload {
namespace {

using autograd::Use;
using device::Stream;

class FailingDevice final : public tests::QueueDevice {
 public:
  explicit FailingDevice(int calls) : QueueDevice(Compute::caller), left_(calls) {}

  void copy(void* to, const void* from, int64_t bytes, device::Direction direction, Stream stream) override {
    call();
    QueueDevice::copy(to, from, bytes, direction, stream);
  }
  device::EventPtr record(Stream stream) override {
    call();
    return QueueDevice::record(stream);
  }
  void wait(Stream stream, const device::EventPtr& event) override {
    call();
    QueueDevice::wait(stream, event);
  }
  void synchronize() override {
    call();
    QueueDevice::synchronize();
  }

 private:
  void call() {
    if (left_ == 0) throw DeviceError("an illegal memory access was encountered");
    --left_;
  }
  int left_;
};

void step(Offload& offload, std::vector<Use>& values) {
  offload.begin_step();
  for (int i = 0; i < 6; ++i) {
    const at::Tensor tensor = at::full({256}, i);
    values.emplace_back(
        std::make_shared<autograd::SavedValue>(tensor.storage(), autograd::SavedValue::Origin{}, config::Place::host),
        Use::By::backward);
    offload.send(*values.back());
  }
  offload.begin_head();
  offload.end_forward();
  for (; values.size() > 1; values.pop_back()) {  // one is never asked for
    offload.begin_unpack();
    values.back()->bytes();
    offload.prefetch();
  }
}

// Whether a step that is learned from and one behind it run through; where not, that the error says why.
bool runs(int calls, config::TransferSettings settings) {
  FailingDevice device(calls);
  tier::HostTier tier(device, 1 << 16, 0, nullptr);
  bool ran = false;
  {
    Offload offload(device, settings, tier, /*batch_bytes=*/2048);
    std::vector<Use> values;  // outlive the failure, as the graph does
    try {
      offload.begin_learning();
      step(offload, values);
      offload.end_learning(1 << 20);
      step(offload, values);
      ran = true;
    } catch (const DeviceError& error) {
      CHECK(std::string(error.what()) == "an illegal memory access was encountered");
    }
  }
  CHECK(tier.pool().leased_bytes() == 0);
  return ran;
}

TEST_CASE("a device that fails at any call ends the step with its error, and nothing else") {
  config::TransferSettings settings;
  settings.min_bytes = 0;
  SUBCASE("values") {}
  SUBCASE("blocks") { settings.schedule = config::Schedule::block; }
  SUBCASE("one stream") { settings.side_stream = false; }
  int calls = 0;
  for (; calls < 500 && !runs(calls, settings); ++calls) {
  }
  CHECK(calls > 20);
  CHECK(calls < 500);
}

}  // namespace
}  // namespace memtune::offload
