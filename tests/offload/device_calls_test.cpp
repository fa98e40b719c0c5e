// Counts the driver calls that a transfer costs the CPU.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <vector>

#include "core/engine/offload/activation_offload_engine.h"
#include "tests/support/simulated_device.h"
namespace memtune::offload::device_calls_test {
namespace {

using autograd::SavedStorageConsumerReference;

constexpr int64_t kBytes = 1024, kFar = 1 << 30;
constexpr int kValues = 32;

// Returns the device calls of the second step. One copy takes `copy_us`, the compute per tensor one microsecond.
tests::SimulatedDevice::Calls calls_of_a_step(int64_t batch_bytes, double copy_us) {
  tests::SimulatedDevice device(kBytes / copy_us);
  tier::DiskSpillingActivationHostTier tier(device, 1 << 20, 0, nullptr);
  plan::TransferSettings settings;
  settings.min_bytes = 0;
  ActivationOffloadEngine offload(device, settings, tier, batch_bytes);
  const auto step = [&] {
    offload.begin_step();
    std::vector<SavedStorageConsumerReference> values;
    for (int i = 0; i < kValues; ++i, device.now_us += 1) {
      offload.make_room(0);
      const at::Tensor tensor = at::empty({kBytes}, at::kByte);
      values.emplace_back(std::make_shared<autograd::SavedStorage>(tensor.storage(), autograd::SavedStorage::Origin{},
                                                                   plan::TensorPlacement::host),
                          SavedStorageConsumerReference::ConsumerKind::backward);
      offload.start_offload(*values.back());
    }
    device.now_us += kValues * copy_us;  // the head: all copies out have ended
    offload.begin_head();
    if (offload.learned()) {
      device.use.allocated = kFar;
      offload.make_room(1);
      device.use.allocated = 0;
    }
    offload.end_forward();
    for (; !values.empty(); values.pop_back(), device.now_us += 1) {
      offload.begin_unpack();
      values.back()->bytes();
      offload.prefetch();
    }
  };
  offload.begin_learning();
  step();
  offload.end_learning(kFar);
  device.synchronize();
  device.calls = {};
  step();
  CHECK(offload.counters().out_bytes == kValues * kBytes);
  CHECK(offload.counters().in_bytes == kValues * kBytes);
  return device.calls;
}

TEST_CASE("a batch costs two events and one wait of its stream for any number of tensors") {
  const auto calls = calls_of_a_step(8 * kBytes, /*copy_us=*/0.5);
  // Out: 4 batches. Back: the first tensor on demand, then 1, 1, 2, 4, 8, 8 and the remaining 7.
  const int out = 4, in = 8;
  CHECK(calls.copies == 0);
  CHECK(calls.batches == out + in);
  CHECK(calls.records == 2 * (out + in));
  CHECK(calls.waits <= 2 * (out + in));    // the copy stream waits for compute, compute for its reloads
  CHECK(calls.queries <= 4 * (out + in));  // whether a source may be freed, whether CPU memory is free
}

TEST_CASE("a large tensor costs one copy with two events in each direction") {
  const auto calls = calls_of_a_step(0, /*copy_us=*/0.5);
  CHECK(calls.batches == 2 * kValues);
  CHECK(calls.records == 4 * kValues);
  CHECK(calls.waits <= 4 * kValues);
  CHECK(calls.queries <= 3 * kValues);
}

TEST_CASE("CPU memory with running copies is not queried for each copy") {
  const auto calls = calls_of_a_step(0, /*copy_us=*/100);  // no reload has ended when backward needs the tensors
  CHECK(calls.queries <= 3 * kValues);
}

}  // namespace
}  // namespace memtune::offload::device_calls_test
