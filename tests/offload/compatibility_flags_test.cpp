// Tests offload and reload under the compatibility flags, which emulate engines of other programs.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "core/engine/offload/activation_offload_engine.h"
#include "tests/support/queue_device.h"
namespace memtune::offload::compatibility_flags_test {
namespace {

using autograd::SavedStorage;
using autograd::SavedStorageConsumerReference;

struct LazyDevice : tests::QueueDevice {
  LazyDevice() : QueueDevice(Compute::caller) {}
};

struct Engine {
  explicit Engine(const plan::ThirdPartyEngineEmulationFlags& compatibility, bool side_stream = true,
                  plan::ActivationOffloadCopyGranularity schedule = plan::ActivationOffloadCopyGranularity::value)
      : tier(device, 4096, 0, nullptr), offload(device, settings(compatibility, side_stream, schedule), tier) {
    offload.begin_step();
  }

  static plan::TransferSettings settings(const plan::ThirdPartyEngineEmulationFlags& compatibility, bool side_stream,
                                         plan::ActivationOffloadCopyGranularity schedule) {
    plan::TransferSettings result;
    result.min_bytes = 0;
    result.side_stream = side_stream;
    result.schedule = schedule;
    result.compatibility = compatibility;
    return result;
  }

  // Offloads 1 KiB that only the engine holds afterwards.
  void start_offload(int op) {
    const at::Tensor tensor = at::full({256}, static_cast<float>(op));
    SavedStorageConsumerReference use(
        std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, plan::TensorPlacement::host),
        SavedStorageConsumerReference::ConsumerKind::backward);
    offload.count_save();
    offload.start_offload(*use, op);
    values.push_back(std::move(use));
  }
  bool on_device(size_t i) { return static_cast<bool>(values[i]->on_device()); }
  int sources() {
    int count = 0;
    for (size_t i = 0; i < values.size(); ++i) count += on_device(i);
    return count;
  }
  // Backward unpacks one tensor, and the next prefetches are issued.
  void ask(size_t i) {
    offload.begin_unpack(&values[i]);
    values[i]->bytes();
    offload.prefetch();
  }

  LazyDevice device;
  tier::DiskSpillingActivationHostTier tier;
  ActivationOffloadEngine offload;
  std::vector<SavedStorageConsumerReference> values;
};

TEST_CASE("a stash limited by saves ignores bytes and counts tensors that stay only with counts_all") {
  plan::ThirdPartyEngineEmulationFlags compatibility{.learns = false, .stash_saves = 5, .counts_all = true};
  Engine engine(compatibility);
  for (int op = 0; op < 5; ++op) engine.start_offload(op);
  CHECK(engine.sources() == 5);
  engine.start_offload(5);
  CHECK_FALSE(engine.on_device(0));
  CHECK(engine.sources() == 5);
  for (int i = 0; i < 3; ++i) engine.offload.count_save();  // nothing leaves before the next copy
  CHECK(engine.sources() == 5);
  engine.start_offload(6);
  CHECK(engine.sources() == 2);

  compatibility.counts_all = false;
  Engine other(compatibility);
  for (int op = 0; op < 5; ++op) other.start_offload(op);
  for (int i = 0; i < 3; ++i) other.offload.count_save();
  other.start_offload(5);
  CHECK(other.sources() == 5);
}

TEST_CASE("a tensor leaves the stash only after its copy and is reloaded unchanged in any stream order") {
  for (const bool one_stream : {false, true})
    for (const int stash : {1, 2, 5}) {
      CAPTURE(one_stream);
      CAPTURE(stash);
      Engine engine({.learns = false,
                     .prefetch_ops = 1,
                     .stash_saves = stash,
                     .counts_all = true,
                     .empties_stash = true,
                     .one_stream = one_stream});
      for (int op = 0; op < 12; ++op) engine.start_offload(op);  // memory of the first is soon reused
      engine.offload.end_forward();
      for (size_t i = 12; i-- > 0;) {
        engine.ask(i);
        const at::Storage bytes = engine.values[i]->bytes();
        CHECK(static_cast<const float*>(bytes.data())[255] == static_cast<float>(i));
        engine.values[i] = {};
      }
    }
}

TEST_CASE("tensors left in the stash are used there unless empties_stash frees them after the first op") {
  for (const bool empties : {true, false}) {
    CAPTURE(empties);
    Engine engine({.learns = false, .prefetch_ops = 1, .stash_saves = 5, .counts_all = true, .empties_stash = empties});
    for (int op = 0; op < 4; ++op) engine.start_offload(op);
    engine.offload.begin_head();
    engine.offload.end_forward();
    CHECK(engine.sources() == 4);
    engine.ask(3);
    CHECK(engine.offload.counters().in_bytes == 0);
    engine.ask(2);
    CHECK(engine.offload.counters().in_bytes == (empties ? 2 * 1024 : 0));  // its own, and the next op's
  }
}

TEST_CASE("prefetching by ops reloads the tensors of one op ahead and not of two") {
  Engine engine({.learns = false, .prefetch_ops = 1, .stash_saves = 1});
  for (const int op : {0, 0, 1, 2, 2, 3, 4}) engine.start_offload(op);
  engine.ask(6);  // was in the stash
  CHECK(engine.offload.counters().in_bytes == 1 * 1024);
  engine.ask(5);
  CHECK(engine.offload.counters().in_bytes == 3 * 1024);
  engine.ask(4);
  engine.ask(3);
  CHECK(engine.offload.counters().in_bytes == 4 * 1024);
}

TEST_CASE("without prefetch each tensor is reloaded on demand even in a step that could be learned from") {
  Engine engine({.learns = false}, /*side_stream=*/false);
  engine.offload.begin_learning();
  for (int op = 0; op < 3; ++op) engine.start_offload(op);
  engine.offload.end_forward();
  engine.ask(2);
  engine.offload.end_learning(0);
  CHECK_FALSE(engine.offload.learned());
  CHECK(engine.offload.counters().in_bytes == 1024);
  engine.ask(1);
  CHECK(engine.offload.counters().in_bytes == 2 * 1024);
}

TEST_CASE("offload by blocks prefetches nothing in the head's backward and then one block ahead") {
  Engine engine({.learns = false}, /*side_stream=*/true, plan::ActivationOffloadCopyGranularity::block);
  for (int block = 0; block < 5; ++block) {  // the last block keeps everything
    engine.offload.begin_block(block);
    if (block < 4) engine.start_offload(block);
  }
  engine.offload.begin_block(-1);
  engine.offload.begin_head();
  engine.offload.end_forward();
  const auto back = [&] { return engine.offload.counters().in_bytes / 1024; };
  engine.offload.enter_backward_block(-1);
  engine.offload.prefetch();
  CHECK(back() == 0);
  engine.offload.enter_backward_block(4);
  CHECK(back() == 1);
  engine.offload.enter_backward_block(4);
  CHECK(back() == 1);
  engine.offload.enter_backward_block(3);
  CHECK(back() == 2);
  engine.ask(3);
  CHECK(back() == 2);
  engine.ask(2);
  CHECK(back() == 3);
}

}  // namespace
}  // namespace memtune::offload::compatibility_flags_test
