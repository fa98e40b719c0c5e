// Small tensors are offloaded and reloaded in batches, with one call and one event per batch. The cases test when and
// how many. A tensor that waits for others must be available in every case.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
#include "core/engine/offload/activation_offload_engine.h"
#include "tests/support/queue_device.h"
namespace memtune::offload::batches_test {
namespace {

using autograd::SavedStorage;
using autograd::SavedStorageConsumerReference;
using device::StreamKind;

constexpr int64_t kBytes = 1024, kFar = 1 << 20;

struct Recording final : trace::ActivationEventRecorder {
  void saved(const trace::ActivationOpOutputKey&) override {}
  void used(const trace::ActivationOpOutputKey&, int) override {}
  void begin_copies(const trace::ActivationOpOutputKey&) override { ++copies; }
  void end_copies() override {}
  void begin_rerun(const trace::ActivationOpOutputKey&) override {}
  void end_rerun() override {}
  int copies = 0;
};

// An engine on a device whose streams run only when something waits for them. A batch has four tensors of 1 KiB.
struct Engine {
  explicit Engine(int64_t goal_bytes = kFar, int64_t host_budget_bytes = 0)
      : tier(device, 1 << 16, host_budget_bytes, nullptr) {
    learn(goal_bytes);
  }

  static plan::TransferSettings settings() {
    plan::TransferSettings settings;
    settings.min_bytes = 0;
    settings.prefetch_bytes = kFar;
    return settings;
  }

  // Runs a step of 16 tensors that backward unpacks in reverse order. Its forward holds `goal_bytes` and nothing else.
  void learn(int64_t goal_bytes) {
    device.use = {0, 1, 0, 0};
    offload.begin_learning();
    offload.begin_step();
    std::vector<SavedStorageConsumerReference> values = start_offload(16);
    offload.begin_head();
    offload.end_forward();
    for (; !values.empty(); values.pop_back()) {
      offload.begin_unpack();
      values.back()->bytes();
    }
    offload.end_learning(goal_bytes);
    offload.begin_step();
    device.batches.clear();
  }

  // Offloads a tensor whose elements are all `content`.
  SavedStorageConsumerReference send_one(float content, int64_t bytes = kBytes,
                                         plan::TensorPlacement place = plan::TensorPlacement::host) {
    const at::Tensor tensor = at::full({bytes / 4}, content);
    SavedStorageConsumerReference use(std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, place),
                                      SavedStorageConsumerReference::ConsumerKind::backward);
    offload.start_offload(*use);
    return use;
  }
  std::vector<SavedStorageConsumerReference> start_offload(int count) {
    std::vector<SavedStorageConsumerReference> values;
    for (int i = 0; i < count; ++i) values.push_back(send_one(static_cast<float>(i)));
    return values;
  }
  static bool holds(SavedStorageConsumerReference& value, float content) {
    const at::Storage bytes = value->bytes();
    const at::Tensor tensor = at::empty({0}).set_(bytes, 0, {static_cast<int64_t>(bytes.nbytes()) / 4}, {1});
    return tensor.eq(content).all().item<bool>();
  }

  tests::QueueDevice device{tests::QueueDevice::Compute::caller};
  tier::DiskSpillingActivationHostTier tier;
  ActivationOffloadEngine offload{device, settings(), tier, /*batch_bytes=*/4 * kBytes};
};

using Batches = std::vector<size_t>;

TEST_CASE("small tensors are offloaded when a batch is full") {
  Engine engine;
  auto values = engine.start_offload(3);
  CHECK(engine.device.batches.empty());
  CHECK(engine.offload.counters().out_bytes == 0);
  values.push_back(engine.send_one(3));
  CHECK(engine.device.batches == Batches{4});
  CHECK(engine.offload.counters().out_bytes == 4 * kBytes);
}

TEST_CASE("a large tensor is offloaded at once and alone after the tensors that waited") {
  Engine engine;
  const SavedStorageConsumerReference large = engine.send_one(0, 4 * kBytes);
  CHECK(engine.device.batches == Batches{1});
  const auto small = engine.start_offload(2);
  const SavedStorageConsumerReference other = engine.send_one(0, 8 * kBytes);
  CHECK(engine.device.batches == Batches{1, 2, 1});
}

TEST_CASE("waiting tensors are offloaded when the block ends") {
  Engine engine;
  const auto values = engine.start_offload(2);
  engine.offload.end_block();
  CHECK(engine.device.batches == Batches{2});
}

TEST_CASE("waiting tensors are offloaded just before an op that would raise the peak") {
  Engine engine;
  const auto values = engine.start_offload(2);
  engine.device.use.allocated = kFar - 5000;
  engine.offload.make_room(5000);
  CHECK(engine.device.batches.empty());
  engine.device.on_wait = [&] { engine.device.use.allocated -= 2 * kBytes; };
  engine.offload.make_room(5001);
  CHECK(engine.device.batches == Batches{2});
  CHECK_FALSE(values[0]->live_storage());
}

TEST_CASE("near the peak or while it is unknown each tensor is offloaded alone") {
  SUBCASE("near the peak") {
    Engine engine;
    engine.device.use.allocated = kFar - 8 * kBytes;  // two batches
    const auto gathered = engine.start_offload(2);
    CHECK(engine.device.batches.empty());
    engine.device.use.allocated += 1;
    const auto values = engine.start_offload(2);
    CHECK(engine.device.batches == Batches{3, 1});  // with the tensors that waited
  }
  SUBCASE("unknown peak") {
    Engine engine;
    engine.offload.begin_learning();
    engine.offload.begin_step();
    const auto values = engine.start_offload(2);
    CHECK(engine.device.batches == Batches{1, 1});
  }
}

TEST_CASE("a waiting tensor is used in place and offloaded before an overwrite and skipped if it is freed") {
  Engine engine;
  auto values = engine.start_offload(3);
  CHECK(engine.holds(values[0], 0));
  CHECK(engine.device.batches.empty());
  values[1]->before_overwrite();
  CHECK(engine.device.batches == Batches{1});
  CHECK_FALSE(values[1]->live_storage());
  CHECK(engine.holds(values[1], 1));
  values[2].end();
  engine.offload.end_block();
  CHECK(engine.device.batches == Batches{1, 1, 1});  // offload, reload, and offload of the first, which is still needed
  values.clear();
  CHECK(engine.tier.pool().leased_bytes() == 0);
}

TEST_CASE("a batch of prefetches has at most as many tensors as are already prefetched") {
  Engine engine;
  auto values = engine.start_offload(16);
  engine.offload.end_block();
  engine.device.use.allocated = kFar;
  engine.offload.make_room(1);  // does not fit: all leave the device
  for (const SavedStorageConsumerReference& value : values) REQUIRE_FALSE(bool(value->live_storage()));
  engine.device.batches.clear();
  engine.offload.end_forward();
  engine.offload.begin_unpack();
  engine.offload.prefetch();
  CHECK(engine.device.batches == Batches{1, 1, 2, 4, 4, 4});
  for (int i = 15; i >= 0; --i) CHECK(engine.holds(values[static_cast<size_t>(i)], static_cast<float>(i)));
}

TEST_CASE("with a recorder each copy is a call of its own and is recorded for its tensor") {
  Engine engine;
  Recording recording;
  engine.offload.set_recorder(&recording);
  const auto values = engine.start_offload(4);
  CHECK(engine.offload.counters().out_bytes == 4 * kBytes);
  CHECK(engine.device.batches.empty());
  CHECK(recording.copies == 4);
}

TEST_CASE("tensors that CPU memory has no room for keep their bytes on the device") {
  Engine engine(kFar, /*host_budget_bytes=*/16 * 4096);  // a lease is a page
  std::vector<SavedStorageConsumerReference> values = engine.start_offload(18);
  CHECK_THROWS_AS(engine.offload.end_block(), OutOfHostMemoryError);
  for (size_t i = 0; i < values.size(); ++i) CHECK(engine.holds(values[i], static_cast<float>(i)));
  values.clear();
  CHECK(engine.tier.pool().leased_bytes() == 0);
}

}  // namespace
}  // namespace memtune::offload::batches_test
