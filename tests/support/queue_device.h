// A device whose streams are queues of work. Work runs when a thread waits for it, or when the test asks for it: at the
// latest or at any time that events allow. So missing synchronization shows.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/device/device.h"
#include "core/base/device/redundant_stream_wait_filter.h"
#include "tests/support/random.h"

namespace memtune::tests {

class QueueDevice : public device::Device {
 public:
  using StreamKind = device::StreamKind;
  // caller: the calling thread is the compute stream, as on the CPU device. queued: compute runs asynchronously, as on
  // CUDA.
  enum class Compute { caller, queued };
  // With `random`, each call also runs some queued work.
  explicit QueueDevice(Compute compute, Random* random = nullptr) : compute_(compute), random_(random) {}

  Type type() const override { return Type::cpu; }
  std::string name() const override { return "queues"; }
  int64_t total_bytes() const override { return int64_t{1} << 40; }
  std::unique_ptr<device::HostBuffer> allocate_host(int64_t bytes, bool) override {
    struct Slab final : device::HostBuffer {
      explicit Slab(int64_t bytes) : memory(new char[static_cast<size_t>(bytes) + kPage]), size(bytes) {}
      char* data() override {
        const auto address = reinterpret_cast<uintptr_t>(memory.get());
        return memory.get() + (kPage - address % kPage) % kPage;
      }
      int64_t bytes() const override { return size; }
      std::unique_ptr<char[]> memory;
      int64_t size;
    };
    return std::make_unique<Slab>(bytes);
  }

  void copy(void* to, const void* from, int64_t bytes, device::CopyDirection, StreamKind stream) override {
    enqueue(stream, [=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
  }
  // Queues a kernel.
  void enqueue(StreamKind stream, std::function<void()> work) {
    if (runs_at_once(stream)) return work();
    const std::lock_guard lock(mutex_);
    queue(stream).tasks.push_back({std::move(work), nullptr});
    run_a_little();
  }
  // In reverse, because the order within a batch is unspecified.
  void copy_batch(std::span<const Copy> copies, device::CopyDirection direction, StreamKind stream) override {
    batches.push_back(copies.size());
    for (size_t i = copies.size(); i-- > 0;) copy(copies[i].to, copies[i].from, copies[i].bytes, direction, stream);
  }
  device::EventPtr record(StreamKind stream) override {
    const std::lock_guard lock(mutex_);
    return std::make_shared<Mark>(*this, stream, queue(stream).ran + queue(stream).tasks.size(),
                                  order_.record(&queue(stream)));
  }
  device::EventPtr record_timed(StreamKind stream) override { return record(stream); }
  void wait(StreamKind stream, const device::EventPtr& event) override {
    auto mark = std::static_pointer_cast<Mark>(event);
    if (runs_at_once(stream)) {
      mark->synchronize();
      if (on_wait) on_wait();
      return;
    }
    const std::lock_guard lock(mutex_);
    if (order_.is_ordered_after(&queue(stream), mark->point)) return;  // as on CUDA
    order_.note_wait(&queue(stream), mark->point);
    queue(stream).tasks.push_back({nullptr, mark});
    run_a_little();
  }
  void synchronize() override {
    for (const StreamKind stream : {StreamKind::compute, StreamKind::out, StreamKind::in}) run(stream, kAll);
  }

  // Runs all remaining work in a random order.
  void finish(Random& random) {
    while (step(random)) {
    }
  }

  device::AllocatorStats memory() const override { return use; }
  int64_t used_bytes() const override { return 0; }
  int64_t unmanaged_bytes() const override { return 0; }
  void reset_peak() override {}
  void set_cap(int64_t) override {}
  void empty_cache() override {}

  bool idle(StreamKind stream) { return queue(stream).tasks.empty(); }
  // Whether only waits are queued.
  bool done(StreamKind stream) {
    return std::ranges::none_of(queue(stream).tasks, [](const auto& task) { return bool(task.work); });
  }

  device::AllocatorStats use{0, int64_t{1} << 40, 0, 0};
  std::function<void()> on_wait;  // of compute, if it is the calling thread
  std::vector<size_t> batches;    // copies per call

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  struct Mark final : device::StreamEvent {
    Mark(QueueDevice& device, StreamKind stream, size_t position, device::RedundantStreamWaitFilter::Point point)
        : device(device), stream(stream), position(position), point(point) {}
    bool done() const override {
      const std::lock_guard lock(device.mutex_);
      return device.queue(stream).ran >= position;
    }
    void synchronize() override { device.run(stream, position); }
    bool implies(const StreamEvent& other) const override {
      return point.implies(static_cast<const Mark&>(other).point);
    }
    double ms_since(const StreamEvent&) const override { return 0; }
    QueueDevice& device;
    StreamKind stream;
    size_t position;
    device::RedundantStreamWaitFilter::Point point;
  };
  struct Task {
    std::function<void()> work;  // either this or `awaited`
    std::shared_ptr<Mark> awaited;
  };
  struct Queue {
    std::deque<Task> tasks;
    size_t ran = 0;
  };

  Queue& queue(StreamKind stream) { return queues_[static_cast<size_t>(stream)]; }
  bool runs_at_once(StreamKind stream) const { return stream == StreamKind::compute && compute_ == Compute::caller; }

  void run_next(StreamKind stream) {
    Task task = std::move(queue(stream).tasks.front());
    queue(stream).tasks.pop_front();
    if (task.awaited) task.awaited->synchronize();
    if (task.work) task.work();
    ++queue(stream).ran;
  }
  void run(StreamKind stream, size_t position) {
    const std::lock_guard lock(mutex_);
    while (queue(stream).ran < position && !queue(stream).tasks.empty()) run_next(stream);
  }
  bool can_go_on(StreamKind stream) {
    auto& tasks = queue(stream).tasks;
    return !tasks.empty() && (!tasks.front().awaited || tasks.front().awaited->done());
  }
  bool step(Random& random) {
    const std::lock_guard lock(mutex_);
    const int first = random.below(3);
    for (int i = 0; i < 3; ++i)
      if (const auto stream = static_cast<StreamKind>((first + i) % 3); can_go_on(stream))
        return run_next(stream), true;
    return false;
  }
  void run_a_little() {
    if (!random_ || !random_->one_in(3)) return;
    for (int steps = random_->below(4); steps > 0 && step(*random_); --steps) {
    }
  }

  Compute compute_;
  Random* random_;
  Queue queues_[3];
  device::RedundantStreamWaitFilter order_;
  std::recursive_mutex mutex_;  // events may be waited for anywhere; work then runs there
};

}  // namespace memtune::tests
