// The trip of a buffer, state by state, on a device that records what it is asked for and runs copies only when told:
// order and lifetime are checked, not timing.
#include "core/offload/offload.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>

namespace memtune::offload {
namespace {

using autograd::Buffer;
using device::Stream;

// Streams are queues of work that run when somebody waits for them: the latest moment that is allowed. A copy that is
// not waited for has not happened.
class LazyDevice final : public device::Device {
 public:
  struct Mark final : device::Event {
    Mark(LazyDevice& device, Stream stream, size_t position) : device(device), stream(stream), position(position) {}
    bool done() const override { return device.ran[index(stream)] >= position; }
    void synchronize() override { device.run(stream, position); }
    LazyDevice& device;
    Stream stream;
    size_t position;
  };

  c10::Device torch_device() const override { return c10::kCPU; }
  std::string name() const override { return "lazy"; }
  bool emulated() const override { return true; }
  int64_t total_bytes() const override { return 1 << 30; }
  std::unique_ptr<device::HostSlab> allocate_host(int64_t bytes) override {
    struct Slab final : device::HostSlab {
      explicit Slab(int64_t bytes) : memory(static_cast<size_t>(bytes)) {}
      char* data() override { return memory.data(); }
      int64_t bytes() const override { return static_cast<int64_t>(memory.size()); }
      std::vector<char> memory;
    };
    return std::make_unique<Slab>(bytes);
  }
  void copy(void* to, const void* from, int64_t bytes, device::Direction, Stream stream) override {
    auto work = [=] { std::memcpy(to, from, static_cast<size_t>(bytes)); };
    if (stream == Stream::compute) return work();
    queue[index(stream)].push_back(work);
  }
  device::EventPtr record(Stream stream) override {
    return std::make_shared<Mark>(*this, stream, queue[index(stream)].size());
  }
  void wait(Stream stream, const device::EventPtr& event) override {
    auto mark = std::static_pointer_cast<Mark>(event);
    if (stream == Stream::compute) return mark->synchronize();
    queue[index(stream)].push_back([mark] { mark->synchronize(); });
  }
  void synchronize() override {
    for (Stream stream : {Stream::out, Stream::in}) run(stream, queue[index(stream)].size());
  }
  device::MemoryUse memory() const override { return use; }
  int64_t used_bytes() const override { return 0; }
  void reset_peak() override {}
  void set_cap(int64_t) override {}
  void empty_cache() override {}

  static size_t index(Stream stream) { return static_cast<size_t>(stream); }
  void run(Stream stream, size_t position) {
    while (ran[index(stream)] < position) queue[index(stream)][ran[index(stream)]++]();
  }

  std::vector<std::function<void()>> queue[3];
  size_t ran[3] = {0, 0, 0};
  device::MemoryUse use{0, int64_t{1} << 40, 0, 0};
};

config::TransferSettings settings(int64_t stash, int64_t prefetch) {
  config::TransferSettings result;
  result.min_bytes = 0;
  result.stash_bytes = stash;
  result.prefetch_bytes = prefetch;
  return result;
}

// A value of 1 KiB whose every element is `value`, sent and then dropped by the step.
autograd::BufferPtr sent(Offload& offload, float value, at::Tensor* keep = nullptr) {
  at::Tensor tensor = at::full({256}, value);
  auto buffer = std::make_shared<Buffer>(tensor);
  buffer->tickets = 1;
  offload.send(buffer);
  if (keep) *keep = tensor;
  return buffer;
}

bool holds(const at::Storage& storage, float value) {
  at::Tensor tensor = at::empty({0}).set_(storage, 0, {256}, {1});
  return at::equal(tensor, at::full({256}, value));
}

TEST_CASE("a source lives until its copy out is done, and the bytes that come back are its bytes") {
  LazyDevice device;
  Offload offload(device, settings(/*stash=*/1 << 20, 0), 4096);
  auto buffer = sent(offload, 3);
  CHECK(buffer->alive());  // the stash holds it: the copy has not run
  CHECK(offload.pool().leased_bytes() == 4096);
  offload.flush();
  CHECK_FALSE(buffer->alive());
  offload.bring_back(*buffer);
  CHECK(holds(buffer->resident, 3));
  CHECK(offload.counters().out_bytes == 1024);
  CHECK(offload.counters().in_bytes == 1024);
  buffer->resident = at::Storage();
  buffer->transfer.reset();
  CHECK(offload.pool().leased_bytes() == 0);
}

TEST_CASE("a source that is still here is used as it is") {
  LazyDevice device;
  Offload offload(device, settings(1 << 20, 0), 4096);
  auto buffer = sent(offload, 3);
  offload.bring_back(*buffer);
  CHECK(holds(buffer->resident, 3));
  CHECK(offload.counters().in_bytes == 0);
}

TEST_CASE("beyond the stash limit compute waits for the oldest copy, and only for that") {
  LazyDevice device;
  Offload offload(device, settings(/*stash=*/2048, 0), 1 << 16);
  auto a = sent(offload, 1), b = sent(offload, 2);
  CHECK(a->alive());
  auto c = sent(offload, 3);
  CHECK_FALSE(a->alive());
  CHECK(b->alive());
  CHECK(c->alive());
}

TEST_CASE("from the second step on the stash is at most an eighth of what a step moves") {
  LazyDevice device;
  Offload offload(device, settings(/*stash=*/1 << 20, 0), 1 << 16);
  auto alive_after = [&](int count) {
    std::vector<autograd::BufferPtr> buffers;
    for (int i = 0; i < count; ++i) buffers.push_back(sent(offload, static_cast<float>(i)));
    return std::count_if(buffers.begin(), buffers.end(), [](const auto& buffer) { return bool(buffer->alive()); });
  };
  CHECK(alive_after(32) == 32);  // nothing is known yet: 32 KiB are below the limit
  offload.begin_step();
  CHECK(alive_after(32) == 4);
  offload.begin_step();
  CHECK(alive_after(8) == 4);  // as the step before: its 32 KiB count
  offload.begin_step();
  CHECK(alive_after(8) == 2);  // two transfers at least
}

TEST_CASE("small storages are held, not moved") {
  LazyDevice device;
  auto small = settings(1 << 20, 0);
  small.min_bytes = 1025;
  Offload offload(device, small, 4096);
  auto buffer = sent(offload, 3);
  CHECK(buffer->resident);
  CHECK_FALSE(buffer->transfer);
  CHECK(offload.counters().out_bytes == 0);
}

TEST_CASE("copies back are issued in the reverse of the order out, within the window") {
  LazyDevice device;
  Offload offload(device, settings(0, /*prefetch=*/2048), 1 << 16);
  auto a = sent(offload, 1), b = sent(offload, 2), c = sent(offload, 3);
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 2048);  // c and b
  offload.bring_back(*c);
  CHECK(offload.counters().in_bytes == 2048);
  CHECK(holds(c->resident, 3));
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 3072);
  offload.bring_back(*a);
  offload.bring_back(*b);
  CHECK(holds(a->resident, 1));
  CHECK(holds(b->resident, 2));
  CHECK(offload.counters().in_bytes == 3072);
}

TEST_CASE("prefetching does not raise the peak that was already reached") {
  LazyDevice device;
  Offload offload(device, settings(0, 1 << 20), 1 << 16);
  auto a = sent(offload, 1);
  device.use = {5000, 6000, 0, 0};
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 0);
  device.use = {4977, 7000, 0, 0};  // the backward's own memory went above it: no reason to follow
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 0);
  device.use = {4976, 7000, 0, 0};
  offload.prefetch();
  CHECK(offload.counters().in_bytes == 1024);
}

TEST_CASE("a storage that is about to be overwritten has left before") {
  LazyDevice device;
  Offload offload(device, settings(1 << 20, 0), 4096);
  at::Tensor tensor;
  auto buffer = sent(offload, 3, &tensor);
  offload.before_overwrite(*buffer);
  tensor.fill_(9);
  buffer->overwritten = true;
  offload.bring_back(*buffer);
  CHECK(holds(buffer->resident, 3));
}

TEST_CASE("host memory that goes round is not overwritten before it was read, nor read before it was written") {
  LazyDevice device;
  Offload offload(device, settings(0, 0), 4096);  // room for one
  auto a = sent(offload, 1);
  offload.bring_back(*a);
  at::Storage back = a->resident;
  a->resident = at::Storage();
  a->transfer.reset();
  auto b = sent(offload, 2);  // gets the same bytes
  CHECK(offload.pool().reserved_bytes() == 4096);
  offload.bring_back(*b);
  CHECK(holds(back, 1));
  CHECK(holds(b->resident, 2));
}

TEST_CASE("a transfer that dies in any state leaves nothing behind and nothing running into freed memory") {
  enum State { stashed, on_host, coming_back, returned, used_from_the_stash };
  for (State state : {stashed, on_host, coming_back, returned, used_from_the_stash}) {
    CAPTURE(state);
    LazyDevice device;
    bool stays = state == stashed || state == used_from_the_stash;
    Offload offload(device, settings(stays ? 1 << 20 : 0, 1 << 20), 4096);
    auto buffer = sent(offload, 1);
    if (state == coming_back) offload.prefetch();
    if (state == returned || state == used_from_the_stash) offload.bring_back(*buffer);
    buffer.reset();
    CHECK(offload.pool().leased_bytes() == 0);
    for (Stream stream : {Stream::out, Stream::in})  // what reads the source or writes the target has been waited for
      CHECK(device.ran[LazyDevice::index(stream)] == device.queue[LazyDevice::index(stream)].size());
    offload.begin_step();
    auto next = sent(offload, 2);
    offload.bring_back(*next);
    CHECK(holds(next->resident, 2));
  }
}

TEST_CASE("on the compute stream a source is gone when send returns") {
  LazyDevice device;
  auto sync = settings(1 << 20, 0);
  sync.side_stream = false;
  Offload offload(device, sync, 4096);
  auto buffer = sent(offload, 3);
  CHECK_FALSE(buffer->alive());
  offload.bring_back(*buffer);
  CHECK(holds(buffer->resident, 3));
}

}  // namespace
}  // namespace memtune::offload
