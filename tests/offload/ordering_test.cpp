// Only events order copies, and memory is reused in the order of the compute stream. Here the streams run whenever
// events allow it. The previous owner of a memory block overwrites it as late as it may, the next owner as early as it
// may. A missing order fails in some run.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "core/engine/offload/activation_offload_engine.h"
#include "tests/support/cpu_memory.h"
#include "tests/support/queue_device.h"
namespace memtune::offload::ordering_test {
namespace {

using autograd::SavedStorageConsumerReference;
using device::StreamKind;
using tests::QueueDevice;
using tests::Random;
using Compute = QueueDevice::Compute;

// Memory as a caching allocator provides it. The previous owner may use a block until compute gets there. The next
// owner may use it from then on.
class StreamOrderedMemory final : public tests::WatchedMemory {
 public:
  explicit StreamOrderedMemory(QueueDevice& device) : device_(device) { install(); }
  ~StreamOrderedMemory() { remove(); }

 private:
  void overwrite(void* data, size_t bytes) {
    device_.enqueue(StreamKind::compute, [=] { std::memset(data, 0xFF, bytes); });
  }
  void allocated(void* data, size_t bytes) override { overwrite(data, bytes); }
  void freed(void* data, size_t bytes, c10::DataPtr memory) override {
    overwrite(data, bytes);
    held_.push_back(std::move(memory));
  }
  QueueDevice& device_;
  std::vector<c10::DataPtr> held_;
};

// Drives an engine through random steps.
class Steps {
 public:
  Steps(uint64_t seed, Compute compute)
      : random_(seed),
        device_(compute, random_.one_in(3) ? nullptr : &random_),
        memory_(device_),
        tier_(device_, 4096 * (1 + random_.below(3)), 0, nullptr),
        offload_(device_, settings(random_), tier_, random_.of({0, 500, 3000})) {
    device_.use.allocated = device_.use.peak_allocated = 1000;
  }

  // Returns how many tensors were reloaded with other bytes.
  int run() {
    const bool learns = random_.one_in(2);
    for (int step = 0, steps = 1 + random_.below(3); step < steps; ++step) {
      if (learns && step == 0) offload_.begin_learning();
      offload_.begin_step();
      forward();
      backward();
      if (learns && step == 0) offload_.end_learning(1000 + random_.below(4000));
      CHECK(tier_.pool().leased_bytes() == 0);
    }
    device_.finish(random_);
    return wrong_;
  }

 private:
  struct Value {
    SavedStorageConsumerReference use;
    at::Tensor tensor;  // while the forward holds it
    float content;
  };

  static plan::TransferSettings settings(Random& random) {
    plan::TransferSettings settings;
    settings.min_bytes = 0;
    settings.side_stream = !random.one_in(6);
    settings.stash_bytes = random.of({0, 700, 1 << 20});
    settings.prefetch_bytes = random.of({0, 900, 1 << 20});
    if (random.one_in(3)) settings.schedule = plan::ActivationOffloadCopyGranularity::block;
    settings.groups_in_flight = random.below(3);
    settings.prefetch_blocks = random.below(3);
    return settings;
  }

  void fill(const at::Tensor& tensor, float content) {
    float* data = tensor.data_ptr<float>();
    const int64_t count = tensor.numel();
    device_.enqueue(StreamKind::compute, [=] { std::fill_n(data, count, content); });
  }

  void expect(const at::Storage& storage, float content) {
    const auto* data = static_cast<const float*>(storage.data());
    const size_t count = storage.nbytes() / sizeof(float);
    device_.enqueue(StreamKind::compute,
                    [=, this] { wrong_ += std::any_of(data, data + count, [=](float x) { return x != content; }); });
  }

  void forward() {
    for (int i = 0, count = 2 + random_.below(12); i < count; ++i) {
      const at::Tensor tensor = at::empty({64 * (1 + random_.below(20))});
      const auto content = static_cast<float>(++contents_);
      fill(tensor, content);
      auto value = std::make_shared<autograd::SavedStorage>(tensor.storage(), autograd::SavedStorage::Origin{},
                                                            plan::TensorPlacement::host);
      values_.push_back(
          {SavedStorageConsumerReference(std::move(value), SavedStorageConsumerReference::ConsumerKind::backward),
           tensor, content});
      offload_.start_offload(*values_.back().use);
      for (Value& value : values_) forward_goes_on(value);
      if (random_.one_in(3)) offload_.end_block();
      if (random_.one_in(8)) offload_.begin_head();
      if (random_.one_in(3)) offload_.make_room(random_.below(4000));
    }
    for (Value& value : values_) value.tensor.reset();
    offload_.end_forward();
  }

  // Drops a tensor, overwrites it in place or keeps it.
  void forward_goes_on(Value& value) {
    if (!value.tensor.defined() || !random_.one_in(3)) return;
    if (random_.one_in(4)) {
      value.use->before_overwrite();
      fill(value.tensor, -1);
      value.use->overwritten();
    }
    value.tensor.reset();
  }

  void backward() {
    while (!values_.empty()) {
      if (random_.one_in(5))
        std::swap(values_.back(), values_[static_cast<size_t>(random_.below(static_cast<int>(values_.size())))]);
      Value value = std::move(values_.back());
      values_.pop_back();
      if (random_.one_in(8)) continue;  // never unpacked
      offload_.begin_unpack();
      expect(value.use->bytes(), value.content);
      offload_.prefetch();
    }
  }

  Random random_;
  QueueDevice device_;
  StreamOrderedMemory memory_;
  tier::DiskSpillingActivationHostTier tier_;
  ActivationOffloadEngine offload_;
  std::vector<Value> values_;
  int contents_ = 0, wrong_ = 0;
};

TEST_CASE("every tensor is reloaded unchanged in any stream order that events allow") {
  for (const Compute compute : {Compute::queued, Compute::caller})
    for (uint64_t seed = 0; seed < 400; ++seed) {
      CAPTURE(seed);
      REQUIRE(Steps(seed, compute).run() == 0);
    }
}

}  // namespace
}  // namespace memtune::offload::ordering_test
