#include "core/base/device/cpu_emulated_device.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/bytes.h"
#include "core/base/device/pageable_host_buffer.h"
#include "core/base/error.h"

namespace memtune::device {

int64_t activity_clock() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class ActivityLog {
 public:
  void start() {
    std::lock_guard lock(mutex_);
    activities_.clear();
    lost_ = 0;
    recording_ = true;
  }
  std::vector<EmulatedStreamActivityRecord> stop(int64_t& lost) {
    std::lock_guard lock(mutex_);
    recording_ = false;
    lost = lost_;
    return std::move(activities_);
  }
  // True on the training thread, which is the one that created the log.
  bool of_compute() const { return std::this_thread::get_id() == compute_; }
  void add(const EmulatedStreamActivityRecord& activity) noexcept {
    std::lock_guard lock(mutex_);
    if (!recording_) return;
    try {
      activities_.push_back(activity);
    } catch (const std::bad_alloc&) {
      ++lost_;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<EmulatedStreamActivityRecord> activities_;
  int64_t lost_ = 0;
  bool recording_ = false;
  const std::thread::id compute_ = std::this_thread::get_id();
};

class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void push(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

 private:
  void run() noexcept {
    while (auto task = next()) task();
  }
  std::function<void()> next() {  // empty: closing and no task left
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return {};
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::thread thread_;  // last: it starts at once
};

namespace {

class CpuEvent final : public StreamEvent {
 public:
  CpuEvent(std::shared_ptr<ActivityLog> log, RedundantStreamWaitFilter::Point point)
      : log_(std::move(log)), point_(point) {}

  bool done() const override {
    std::lock_guard lock(mutex_);
    return done_;
  }
  void synchronize() override {
    std::unique_lock lock(mutex_);
    if (done_) return;
    const int64_t start = activity_clock();
    changed_.wait(lock, [this] { return done_; });
    // A blocked worker means an idle copy stream. Only a blocked training thread is a wait of compute.
    if (log_->of_compute())
      log_->add({EmulatedStreamActivityRecord::Kind::wait, StreamKind::compute, start, activity_clock(), 0});
  }
  bool implies(const StreamEvent& other) const override {
    return point_.implies(static_cast<const CpuEvent&>(other).point_);
  }
  double ms_since(const StreamEvent& earlier) const override {
    return static_cast<double>(reached_ns_ - static_cast<const CpuEvent&>(earlier).reached_ns_) / 1e6;
  }
  void reach() {
    {
      std::lock_guard lock(mutex_);
      reached_ns_ = activity_clock();
      done_ = true;
    }
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  int64_t reached_ns_ = 0;
  std::shared_ptr<ActivityLog> log_;
  RedundantStreamWaitFilter::Point point_;
};

}  // namespace

CpuEmulatedDevice::CpuEmulatedDevice(CappedMemoryCounter& memory)
    : memory_(memory),
      log_(std::make_shared<ActivityLog>()),
      out_(std::make_unique<Worker>()),
      in_(std::make_unique<Worker>()) {}

CpuEmulatedDevice::~CpuEmulatedDevice() = default;  // workers finish their queues

std::string CpuEmulatedDevice::name() const {
  const unsigned cores = std::thread::hardware_concurrency();
  return "CPU (" + std::to_string(cores) + (cores == 1 ? " core)" : " cores)");
}

int64_t CpuEmulatedDevice::total_bytes() const { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

std::unique_ptr<HostBuffer> CpuEmulatedDevice::allocate_host(int64_t bytes, bool /*pinned*/) {
  return std::make_unique<PageableHostBuffer>(bytes);
}

Worker* CpuEmulatedDevice::worker(StreamKind stream) const {
  if (stream == StreamKind::compute) return nullptr;
  return stream == StreamKind::out ? out_.get() : in_.get();
}

void CpuEmulatedDevice::copy(void* to, const void* from, int64_t bytes, CopyDirection direction, StreamKind stream) {
  if (bytes == 0) return;
  const auto kind = direction == CopyDirection::to_host ? EmulatedStreamActivityRecord::Kind::copy_out
                                                        : EmulatedStreamActivityRecord::Kind::copy_in;
  auto task = [=, log = log_, tag = tag_] {
    const int64_t start = activity_clock();
    std::memcpy(to, from, static_cast<size_t>(bytes));
    log->add({kind, stream, start, activity_clock(), bytes, tag});
  };
  if (Worker* queue = worker(stream)) {
    queue->push(std::move(task));
  } else {
    task();
  }
}

EventPtr CpuEmulatedDevice::record(StreamKind stream) {
  Worker* const queue = worker(stream);
  auto event = std::make_shared<CpuEvent>(log_, order_.record(queue));
  if (queue) {
    queue->push([event] { event->reach(); });
  } else {
    event->reach();
  }
  return event;
}

void CpuEmulatedDevice::wait(StreamKind stream, const EventPtr& event) {
  if (Worker* queue = worker(stream)) {
    queue->push([event] { event->synchronize(); });
  } else {
    event->synchronize();
  }
}

void CpuEmulatedDevice::synchronize() {
  const EventPtr out = record(StreamKind::out), in = record(StreamKind::in);
  out->synchronize();
  in->synchronize();
}

AllocatorStats CpuEmulatedDevice::memory() const {
  const int64_t now = memory_.allocated(), peak = memory_.peak();
  return {now, peak, now, peak};
}

void CpuEmulatedDevice::start_recording() { log_->start(); }
std::vector<EmulatedStreamActivityRecord> CpuEmulatedDevice::stop_recording(int64_t& lost) { return log_->stop(lost); }

}  // namespace memtune::device
