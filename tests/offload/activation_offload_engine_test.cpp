// Follows a tensor through offload and reload, state by state. The device records its calls and runs copies only on
// demand, so the cases check order and lifetime, not timing.
#include "core/engine/offload/activation_offload_engine.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/queue_device.h"
namespace memtune::offload::offload_engine_test {
namespace {

using autograd::SavedStorage;
using autograd::SavedStorageConsumerReference;
using device::StreamKind;

// Streams run only when something waits for them, at the latest moment that is allowed. A copy that nothing waited for
// has not happened.
struct LazyDevice : tests::QueueDevice {
  LazyDevice() : QueueDevice(Compute::caller) {}
};

plan::TransferSettings settings(int64_t stash, int64_t prefetch) {
  plan::TransferSettings result;
  result.min_bytes = 0;
  result.stash_bytes = stash;
  result.prefetch_bytes = prefetch;
  return result;
}

// Offloads a tensor of 1 KiB whose elements are all `content`. The step then drops it.
SavedStorageConsumerReference sent(ActivationOffloadEngine& offload, float content, at::Tensor* keep = nullptr) {
  at::Tensor tensor = at::full({256}, content);
  SavedStorageConsumerReference use(
      std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, plan::TensorPlacement::host),
      SavedStorageConsumerReference::ConsumerKind::backward);
  offload.start_offload(*use);
  if (keep) *keep = tensor;
  return use;
}

bool holds(const at::Storage& storage, float value) {
  at::Tensor tensor = at::empty({0}).set_(storage, 0, {256}, {1});
  return at::equal(tensor, at::full({256}, value));
}

// Learns from an empty step with `peak` as its peak allocated bytes.
void learn(LazyDevice& device, ActivationOffloadEngine& offload, int64_t peak) {
  offload.begin_learning();
  device.use.peak_allocated = peak;
  offload.end_learning(0);
  offload.begin_step();
}

// Learns from a step whose backward unpacks `count` tensors in reverse order. There is room for all of them.
void learn_reverse(LazyDevice& device, ActivationOffloadEngine& offload, int count) {
  device.use = {};
  offload.begin_learning();
  offload.begin_step();
  std::vector<SavedStorageConsumerReference> values;
  for (int i = 0; i < count; ++i) values.push_back(sent(offload, 0));
  offload.begin_head();
  offload.end_forward();
  for (; !values.empty(); values.pop_back()) {
    offload.begin_unpack();
    values.back()->bytes();
  }
  offload.end_learning(1 << 20);
  offload.begin_step();
}

TEST_CASE("a source lives until its copy out has ended and the reloaded bytes are the same") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 4096, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(/*stash=*/1 << 20, 0), tier);
  auto value = sent(offload, 3);
  CHECK(value->live_storage());  // the stash holds it: the copy has not run
  CHECK(tier.pool().leased_bytes() == 4096);
  offload.begin_head();
  CHECK_FALSE(value->live_storage());
  value->bytes();
  CHECK(holds(value->on_device(), 3));
  CHECK(offload.counters().out_bytes == 1024);
  CHECK(offload.counters().in_bytes == 1024);
  value.end();
  CHECK(tier.pool().leased_bytes() == 0);
}

TEST_CASE("a source that is still on the device is used without a reload") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 4096, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(1 << 20, 0), tier);
  auto value = sent(offload, 3);
  value->bytes();
  CHECK(holds(value->on_device(), 3));
  CHECK(offload.counters().in_bytes == 0);
}

TEST_CASE("beyond the stash limit compute waits only for the oldest copy") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(/*stash=*/2048, 0), tier);
  auto a = sent(offload, 1), b = sent(offload, 2);
  CHECK(a->live_storage());
  auto c = sent(offload, 3);
  CHECK_FALSE(a->live_storage());
  CHECK(b->live_storage());
  CHECK(c->live_storage());
}

TEST_CASE("two sources may wait while the peak is unknown and later as many as do not raise it") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(/*stash=*/1 << 20, 0), tier);
  std::vector<SavedStorageConsumerReference> values;
  const auto start_offload = [&](int count) {
    for (int i = 0; i < count; ++i) values.push_back(sent(offload, static_cast<float>(i)));
  };
  const auto live_storage = [&] {
    return std::count_if(values.begin(), values.end(), [](const auto& value) { return bool(value->live_storage()); });
  };
  start_offload(8);
  CHECK(live_storage() == 2);
  values.clear();
  learn(device, offload, /*peak=*/10000);
  device.use.allocated = 6000;
  start_offload(8);
  CHECK(live_storage() == 8);
  offload.make_room(4000);  // it just fits
  CHECK(live_storage() == 8);
  device.on_wait = [&] { device.use.allocated -= 1024; };  // a wait frees one source
  offload.make_room(6000);
  CHECK(live_storage() == 6);
}

TEST_CASE("offload by tensors makes compute wait for nothing at the end of a block") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(/*stash=*/1 << 20, 0), tier);
  learn(device, offload, /*peak=*/1 << 20);
  std::vector<SavedStorageConsumerReference> values;
  for (int block = 0; block < 4; ++block) {
    values.push_back(sent(offload, static_cast<float>(block)));
    offload.end_block();
  }
  for (const auto& value : values) CHECK(value->live_storage());
}

TEST_CASE("offload by blocks copies at the end of a block and keeps the sources of some blocks") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  auto grouped = settings(1 << 20, 0);
  grouped.schedule = plan::ActivationOffloadCopyGranularity::block;
  grouped.groups_in_flight = 1;
  grouped.prefetch_blocks = 1;
  ActivationOffloadEngine offload(device, grouped, tier);
  learn_reverse(device, offload, 6);
  std::vector<SavedStorageConsumerReference> values;
  for (int block = 0; block < 3; ++block) {
    for (int i = 0; i < 2; ++i) values.push_back(sent(offload, static_cast<float>(2 * block + i)));
    CHECK(offload.counters().out_bytes == 2048 * block);
    offload.end_block();
  }
  CHECK_FALSE(values[3]->live_storage());
  CHECK(values[4]->live_storage());  // of the last block
  offload.begin_head();
  values[5]->bytes();
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 2 * 1024);  // the block before; its own is still there
  for (int i = 5; i >= 0; --i) {
    values[i]->bytes();
    CHECK(holds(values[i]->on_device(), static_cast<float>(i)));
  }
}

TEST_CASE("a tensor of an unfinished block is used in place and offloaded before an overwrite") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  auto grouped = settings(1 << 20, 0);
  grouped.schedule = plan::ActivationOffloadCopyGranularity::block;
  ActivationOffloadEngine offload(device, grouped, tier);
  at::Tensor tensor;
  auto used = sent(offload, 1), overwritten = sent(offload, 2, &tensor);
  used->bytes();
  CHECK(holds(used->on_device(), 1));
  CHECK(offload.counters().out_bytes == 0);
  overwritten->before_overwrite();
  tensor.fill_(9);
  overwritten->overwritten();
  offload.end_block();
  overwritten->bytes();
  CHECK(holds(overwritten->on_device(), 2));
}

TEST_CASE("small storages are held and not offloaded") {
  LazyDevice device;
  auto small = settings(1 << 20, 0);
  small.min_bytes = 1025;
  tier::DiskSpillingActivationHostTier tier(device, 4096, 0, nullptr);
  ActivationOffloadEngine offload(device, small, tier);
  auto value = sent(offload, 3);
  CHECK(value->state() == SavedStorage::State::held);
  CHECK(offload.counters().out_bytes == 0);
}

TEST_CASE("reloads are issued in the reverse order of offloads within the prefetch window") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(0, /*prefetch=*/2048), tier);
  learn_reverse(device, offload, 3);
  auto a = sent(offload, 1), b = sent(offload, 2), c = sent(offload, 3);
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 2048);  // c and b
  c->bytes();
  CHECK(offload.counters().in_bytes == 2048);
  CHECK(holds(c->on_device(), 3));
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 3072);
  a->bytes();
  b->bytes();
  CHECK(holds(a->on_device(), 1));
  CHECK(holds(b->on_device(), 2));
  CHECK(offload.counters().in_bytes == 3072);
}

TEST_CASE("steps before the one to learn from prefetch nothing") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(0, 1 << 20), tier);
  auto a = sent(offload, 1);
  device.use = {0, 1 << 20, 0, 0};  // an earlier peak, such as that of a check, says nothing of this step
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 0);
  CHECK(holds(a->bytes(), 1));
}

TEST_CASE("sources are released in the same places whether copies have ended or not") {
  for (const bool learned : {false, true}) {
    std::vector<std::vector<bool>> live;
    for (const bool ended : {false, true}) {
      LazyDevice device;
      tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
      ActivationOffloadEngine offload(device, settings(/*stash=*/3 << 10, 0), tier);
      if (learned) learn_reverse(device, offload, 6);
      std::vector<SavedStorageConsumerReference> values;
      std::vector<bool>& here = live.emplace_back();
      for (int i = 0; i < 6; ++i) {
        values.push_back(sent(offload, static_cast<float>(i)));
        if (ended) device.synchronize();
        for (const auto& value : values) here.push_back(bool(value->live_storage()));
      }
    }
    CHECK(live[0] == live[1]);
    CHECK(std::ranges::count(live[0], false) > 0);
    CHECK(std::ranges::count(live[0], true) > 6);  // beside the newest
  }
}

// Runs a step of two tensors. Backward unpacks nothing, then the second, then the first. `peak` is the peak allocated
// before it unpacks the second.
void two_values(LazyDevice& device, ActivationOffloadEngine& offload, int64_t peak) {
  offload.begin_step();
  auto a = sent(offload, 1), b = sent(offload, 2);
  offload.begin_head();
  offload.end_forward();
  const auto unpack = [&](SavedStorage* value, float content) {
    offload.begin_unpack();
    if (value) CHECK(holds(value->bytes(), content));
    offload.prefetch();
  };
  device.use.peak_allocated = peak;
  unpack(nullptr, 0);
  CHECK(offload.counters().in_bytes == 0);  // a step to learn from has no prefetch
  unpack(&*b, 2);
  device.use.peak_allocated = 5000;
  unpack(&*a, 1);
}

TEST_CASE("after learning a prefetch starts as early as all peaks before its use allow") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(/*stash=*/0, /*prefetch=*/1 << 20), tier);
  offload.begin_learning();
  two_values(device, offload, 9000);
  offload.end_learning(0);  // 9000 before the second is needed, 5000 after that

  offload.begin_step();
  auto a = sent(offload, 1), b = sent(offload, 2);
  offload.end_forward();
  offload.begin_unpack();
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 0);  // the device is full until the second is needed
  offload.begin_unpack();
  b->bytes();
  CHECK(offload.counters().in_bytes == 1024);
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 2048);
}

TEST_CASE("a source that is left at the end of forward stays until its use if it fits") {
  for (const int64_t peak : {9000, 7000}) {
    CAPTURE(peak);
    LazyDevice device;
    tier::DiskSpillingActivationHostTier tier(device, 1 << 16, 0, nullptr);
    ActivationOffloadEngine offload(device, settings(1 << 20, 1 << 20), tier);
    offload.begin_learning();
    two_values(device, offload, peak);
    offload.end_learning(9000);
    offload.begin_step();
    auto a = sent(offload, 1), b = sent(offload, 2);
    offload.end_forward();
    CHECK(bool(b->live_storage()) == (peak == 7000));
    CHECK_FALSE((a->live_storage() && peak == 9000));
  }
}

TEST_CASE("a storage is offloaded before it is overwritten") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 4096, 0, nullptr);
  ActivationOffloadEngine offload(device, settings(1 << 20, 0), tier);
  at::Tensor tensor;
  auto value = sent(offload, 3, &tensor);
  value->before_overwrite();
  tensor.fill_(9);
  value->overwritten();
  value->bytes();
  CHECK(holds(value->on_device(), 3));
}

TEST_CASE("reused CPU memory is not overwritten before it is read nor read before it is written") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 4096, 0, nullptr);  // room for one
  ActivationOffloadEngine offload(device, settings(0, 0), tier);
  auto a = sent(offload, 1);
  at::Storage back = a->bytes();
  a.end();
  auto b = sent(offload, 2);  // gets the same bytes
  CHECK(tier.pool().reserved_bytes() == 4096);
  b->bytes();
  CHECK(holds(back, 1));
  CHECK(holds(b->on_device(), 2));
}

TEST_CASE("CPU memory that a reload still reads is not written by the next offload") {
  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier(device, 4096, 4096, nullptr);  // room for one
  ActivationOffloadEngine offload(device, settings(0, 1 << 20), tier);
  learn_reverse(device, offload, 1);
  auto a = sent(offload, 1);
  offload.prefetch();         // has not run yet
  auto b = sent(offload, 2);  // gets the same bytes
  a->bytes();
  CHECK(holds(a->on_device(), 1));
  b->bytes();
  CHECK(holds(b->on_device(), 2));
}

TEST_CASE("a transfer destroyed in any state leaks nothing and leaves no copy into freed memory") {
  enum State { stashed, on_host, reloading, returned, used_from_the_stash };
  for (State state : {stashed, on_host, reloading, returned, used_from_the_stash}) {
    CAPTURE(state);
    LazyDevice device;
    bool stays = state == stashed || state == used_from_the_stash;
    tier::DiskSpillingActivationHostTier tier(device, 4096, 0, nullptr);
    ActivationOffloadEngine offload(device, settings(stays ? 1 << 20 : 0, 1 << 20), tier);
    learn_reverse(device, offload, 1);
    auto value = sent(offload, 1);
    if (state == reloading) offload.prefetch();
    if (state == returned || state == used_from_the_stash) value->bytes();
    value.end();
    CHECK(tier.pool().leased_bytes() == 0);
    // The engine has waited for the copies that read the source or write the target.
    for (StreamKind stream : {StreamKind::out, StreamKind::in}) CHECK(device.idle(stream));
    offload.begin_step();
    auto next = sent(offload, 2);
    next->bytes();
    CHECK(holds(next->on_device(), 2));
  }
}

TEST_CASE("offload on the compute stream frees the source before it returns") {
  LazyDevice device;
  auto sync = settings(1 << 20, 0);
  sync.side_stream = false;
  tier::DiskSpillingActivationHostTier tier(device, 4096, 0, nullptr);
  ActivationOffloadEngine offload(device, sync, tier);
  auto value = sent(offload, 3);
  CHECK_FALSE(value->live_storage());
  value->bytes();
  CHECK(holds(value->on_device(), 3));
}

}  // namespace
}  // namespace memtune::offload::offload_engine_test
