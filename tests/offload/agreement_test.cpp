// The engine and the simulator run the same random steps. After each call both must have the same bytes on the device
// and in host memory, the same copies issued, and the same time: a copy begins under the same conditions in both.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/offload/activation_offload_engine.h"
#include "core/plan/planner/device_host_copy_simulator.h"
#include "tests/support/cpu_memory.h"
#include "tests/support/random.h"
#include "tests/support/simulated_device.h"
namespace memtune::offload::agreement_test {
namespace {

using autograd::SavedStorageConsumerReference;
using tests::Random;

constexpr double kBytesAUs = 800;
constexpr int64_t kSlab = 1 << 16, kTensor = 1 << 20;
constexpr int kNone = -1;

// Counts the bytes of CPU tensors as the memory of the device.
class CountingDevice final : public tests::SimulatedDevice, private tests::WatchedMemory {
 public:
  CountingDevice() : SimulatedDevice(kBytesAUs) {
    use = {};
    install();
  }
  ~CountingDevice() override { remove(); }

 private:
  void allocated(void*, size_t bytes) override {
    use.allocated += static_cast<int64_t>(bytes);
    use.peak_allocated = std::max(use.peak_allocated, use.allocated);
  }
  void freed(void*, size_t bytes, c10::DataPtr) override { use.allocated -= static_cast<int64_t>(bytes); }
};

// Parts of the simulator that live for one step.
struct SimulatedStep {
  SimulatedStep(const plan::TransferSettings& settings, planner::SimulatedCachingAllocator& cache,
                schedule::LearnedMemoryHeadroomTimeline& learned, int64_t largest_bytes)
      : memory({}, cache),
        tier({}, {}, kSlab, /*power_of_two=*/settings.compatibility.power_of_two, /*last_step_bytes=*/0, clock),
        copies(settings, {kBytesAUs / 1e3, kBytesAUs / 1e3}, memory, clock, tier, learned, largest_bytes) {
    copies.schedule().begin_step();
  }

  planner::SimulatedDeviceMemory memory;
  planner::SimulatedComputeAndHostClock clock;
  planner::SimulatedHostAndDiskTier tier;
  planner::DeviceHostCopySimulator copies;
};

class Steps {
 public:
  explicit Steps(uint64_t seed)
      : random_(seed),
        settings_(settings(random_)),
        tier_(device_, kSlab, 0, nullptr, true, settings_.compatibility.power_of_two),
        engine_(device_, settings_, tier_) {}

  void run() {
    const uint64_t shape = random_.next();  // all steps are alike, as those of a model
    const int learns_from = random_.below(3);
    for (int step = 0; step < 4; ++step) {
      random_ = Random(shape);
      device_.synchronize();
      started_us_ = device_.now_us;
      device_.reset_peak();
      if (step == learns_from) {
        engine_.begin_learning();
        if (settings_.compatibility.learns) learned_.begin_learning();
      }
      engine_.begin_step();
      simulated_ = std::make_unique<SimulatedStep>(settings_, cache_, learned_, largest_bytes_);
      forward();
      backward();
      if (step == learns_from) {
        engine_.end_learning(forward_peak_);
        if (learned_.learning()) learned_.end_learning(forward_peak_, simulated_->memory.interval_peak());
        CHECK(engine_.learned() == learned_.learned());
      }
      host_peak_bytes_ = std::max(host_peak_bytes_, simulated_->tier.host_peak_bytes());
      largest_bytes_ = copies().largest_bytes();
    }
  }

 private:
  struct Value {
    SavedStorageConsumerReference use = {};
    at::Tensor tensor;  // while the forward holds it
    int op, block;
    int source;                          // simulated, while the forward holds it
    int held = kNone, transfer = kNone;  // simulated
  };

  static plan::TransferSettings settings(Random& random) {
    plan::TransferSettings settings;
    settings.min_bytes = random.of({0, 500});
    settings.side_stream = !random.one_in(6);
    settings.stash_bytes = random.of<int64_t>({0, kTensor, 1 << 30});
    settings.prefetch_bytes = random.of<int64_t>({0, kTensor, 1 << 30});
    if (random.one_in(3)) settings.schedule = plan::ActivationOffloadCopyGranularity::block;
    settings.groups_in_flight = random.below(3);
    settings.prefetch_blocks = random.below(3);
    if (random.one_in(2)) return settings;
    plan::ThirdPartyEngineEmulationFlags& flags = settings.compatibility;
    flags.learns = random.one_in(4);
    flags.prefetch_ops = random.below(2);
    flags.stash_saves = random.of({0, 1, 3});
    flags.counts_all = random.one_in(2);
    flags.empties_stash = random.one_in(2);
    flags.one_stream = random.one_in(2);
    flags.host_waits = random.one_in(2);
    flags.power_of_two = random.one_in(2);
    return settings;
  }

  schedule::OnlineActivationTransferScheduler& copies() { return simulated_->copies.schedule(); }
  planner::SimulatedDeviceMemory& memory() { return simulated_->memory; }

  void compare(const std::string& after) {
    CAPTURE(after);
    memory().update_peak();
    const planner::DeviceHostCopySimulator& simulated = simulated_->copies;
    CHECK(device_.use.allocated == memory().allocated());
    CHECK(engine_.counters().out_bytes == simulated.out_bytes());
    CHECK(engine_.counters().in_bytes == simulated.in_bytes());
    CHECK(engine_.prefetched_bytes() == copies().prefetched_bytes());
    CHECK(tier_.pool().peak_leased_bytes() == std::max(host_peak_bytes_, simulated_->tier.host_peak_bytes()));
    // This device's compute stream does not wait for its own copies.
    if (settings_.side_stream)
      CHECK((device_.now_us - started_us_) / 1e3 == doctest::Approx(simulated_->clock.compute).epsilon(1e-9));
  }

  void compute() {
    const int us = random_.below(3000);
    device_.now_us += us;
    simulated_->clock.run(us / 1e3, us / 1e3);
  }

  void forward() {
    int op = 0;
    for (int block = 0; block < 4; ++block) {
      engine_.begin_block(block);
      copies().begin_block(block);
      compare("begin_block");
      for (const int last = op + random_.below(5); op < last; ++op) save(op, block);
    }
    engine_.begin_block(-1);
    copies().begin_block(-1);
    engine_.begin_head();
    copies().begin_head();
    compare("begin_head");
    save(op, -1);
    forward_peak_ = memory().peak();
    for (Value& value : values_) drop_tensor(value);
    engine_.end_forward();
    copies().end_forward();
    compare("end_forward");
  }

  void save(int op, int block) {
    const int64_t bytes = 1 + random_.below(random_.one_in(3) ? 800 : kTensor);
    engine_.make_room(bytes);
    copies().make_room(bytes);
    compare("make_room");
    Value value{.tensor = at::empty({bytes}, at::kByte), .op = op, .block = block, .source = memory().make(bytes)};
    memory().update_peak();
    compute();
    if (random_.one_in(2)) {
      engine_.count_save();
      copies().count_save();
    }
    if (random_.one_in(4)) {
      engine_.count_checkpoint_input();
      copies().count_checkpoint_input();
    }
    const autograd::SavedStorage::Origin origin{};
    value.use = SavedStorageConsumerReference(
        std::make_shared<autograd::SavedStorage>(value.tensor.storage(), origin, plan::TensorPlacement::host),
        SavedStorageConsumerReference::ConsumerKind::backward);
    engine_.start_offload(*value.use, op);
    if (copies().takes(bytes))
      value.transfer = simulated_->copies.start_offload(value.source, bytes, bytes, /*on_disk=*/false, op);
    else
      value.held = memory().take(value.source);
    compare("start_offload");
    values_.push_back(std::move(value));
    Value& other = values_[static_cast<size_t>(random_.below(static_cast<int>(values_.size())))];
    if (other.tensor.defined() && other.transfer != kNone && random_.one_in(8)) {
      other.use->before_overwrite();
      simulated_->copies.before_overwrite(other.transfer);
      compare("before_overwrite");
      other.use->overwritten();
    }
    if (random_.one_in(2)) drop_tensor(other);
    compare("drop");
  }

  void drop_tensor(Value& value) {
    value.tensor.reset();
    memory().drop(std::exchange(value.source, kNone));
  }

  void backward() {
    for (; !values_.empty(); values_.pop_back()) {
      if (random_.one_in(6)) std::swap(values_.back(), values_[values_.size() / 2]);
      Value& value = values_.back();
      if (!random_.one_in(8)) unpack(value);
      value.use.end();
      memory().drop(std::exchange(value.held, kNone));
      if (value.transfer != kNone) simulated_->copies.forget(value.transfer);
      compare("end");
      compute();
    }
  }

  void unpack(Value& value) {
    const void* node = &kNodes[value.op];
    engine_.enter_backward_block(value.block);
    copies().enter_backward_block(value.block);
    compare("enter_backward_block");
    engine_.begin_unpack(node);
    simulated_->copies.begin_unpack(node);
    value.use->bytes();
    if (value.held == kNone) value.held = simulated_->copies.reload(value.transfer);
    compare("reload");
    engine_.prefetch(value.block < 0);
    copies().prefetch(value.block < 0);
    compare("prefetch");
  }

  static constexpr char kNodes[64] = {};

  Random random_;
  const plan::TransferSettings settings_;
  CountingDevice device_;
  tier::DiskSpillingActivationHostTier tier_;
  ActivationOffloadEngine engine_;
  planner::SimulatedCachingAllocator cache_{1};
  schedule::LearnedMemoryHeadroomTimeline learned_;
  std::unique_ptr<SimulatedStep> simulated_;
  std::vector<Value> values_;
  double started_us_ = 0;
  int64_t forward_peak_ = 0, host_peak_bytes_ = 0, largest_bytes_ = 0;
};

TEST_CASE("the engine and the simulator agree after every call of random steps") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Steps(seed).run();
  }
}

}  // namespace
}  // namespace memtune::offload::agreement_test
