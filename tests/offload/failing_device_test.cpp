// The n-th call of the device throws, or every call from the n-th on. For every n the step ends with that error.
// Destructors neither throw nor keep memory, and no copy runs into freed memory.
#include "tests/support/failing_device.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
#include "core/engine/offload/activation_offload_engine.h"
namespace memtune::offload::failing_device_test {
namespace {

using autograd::SavedStorageConsumerReference;
using device::StreamKind;
using tests::FailingDevice;

void step(ActivationOffloadEngine& offload, std::vector<SavedStorageConsumerReference>& values) {
  offload.begin_step();
  for (int i = 0; i < 6; ++i) {
    const at::Tensor tensor = at::full({256}, i);
    values.emplace_back(std::make_shared<autograd::SavedStorage>(tensor.storage(), autograd::SavedStorage::Origin{},
                                                                 plan::TensorPlacement::host),
                        SavedStorageConsumerReference::ConsumerKind::backward);
    offload.start_offload(*values.back());
  }
  offload.begin_head();
  offload.end_forward();
  for (; values.size() > 1; values.pop_back()) {  // one is never unpacked
    offload.begin_unpack();
    values.back()->bytes();
    offload.prefetch();
  }
}

enum class Fails { once, for_good };

// Runs a step to learn from and one after it. Returns whether they reached that call.
bool strikes(int call, Fails fails, const plan::TransferSettings& settings) {
  FailingDevice device(call, fails == Fails::for_good);
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  bool ran = false;
  {
    CAPTURE(call);
    ActivationOffloadEngine offload(device, settings, tier, /*batch_bytes=*/2048);
    std::vector<SavedStorageConsumerReference> values;  // they outlive the failure, as the graph does
    try {
      offload.begin_learning();
      step(offload, values);
      offload.end_learning(1 << 20);
      step(offload, values);
      ran = true;
    } catch (const DeviceError& error) {
      CHECK(std::string(error.what()).starts_with("call "));
    }
    values.clear();
    if (fails == Fails::once) CHECK_FALSE(device.copies());
  }
  CHECK(tier.pool().leased_bytes() == 0);
  if (device.calls() < call) CHECK(ran);
  return device.calls() >= call;
}

TEST_CASE("a device that fails at any call ends the step with its error and leaks nothing") {
  plan::TransferSettings settings;
  settings.min_bytes = 0;
  SUBCASE("by tensors") {}
  SUBCASE("by blocks") { settings.schedule = plan::ActivationOffloadCopyGranularity::block; }
  SUBCASE("on one stream") { settings.side_stream = false; }
  for (const Fails fails : {Fails::once, Fails::for_good}) {
    int call = 1;
    for (; call < 500 && strikes(call, fails, settings); ++call) {
    }
    CHECK(call > 20);
    CHECK(call < 500);
  }
}

}  // namespace
}  // namespace memtune::offload::failing_device_test
