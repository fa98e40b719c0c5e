// Runs pread and pwrite on a few threads, for kernels and containers that refuse io_uring.
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "core/engine/disk/async_file_io.h"

namespace memtune::disk {
namespace {

// A queue between threads.
template <class T>
class Mailbox {
 public:
  void push(T item) {
    {
      std::lock_guard lock(mutex_);
      items_.push_back(item);
    }
    changed_.notify_one();
  }
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }
  bool take(T& item) {  // false: closed and empty
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return false;
    item = items_.front();
    items_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false;
};

class ThreadIo final : public AsyncFileIo {
 public:
  ThreadIo(int file, int threads) : file_(file) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadIo() override { stop(); }
  ThreadIo(const ThreadIo&) = delete;
  ThreadIo& operator=(const ThreadIo&) = delete;

  int submit(const IoSubmission& transfer, size_t tag) override {
    orders_.push({transfer, tag});
    return 0;
  }
  IoCompletion reap() override {
    IoCompletion completion;
    completions_.take(completion);
    return completion;
  }
  const char* name() const override { return "threads"; }

 private:
  struct Order {
    IoSubmission transfer;
    size_t tag = 0;
  };

  void work() {
    for (Order order; orders_.take(order);) completions_.push({order.tag, run(order.transfer)});
  }
  int64_t run(const IoSubmission& transfer) const {
    const auto bytes = static_cast<size_t>(transfer.bytes);
    const ssize_t moved = transfer.kind == IoSubmission::Kind::read
                              ? ::pread(file_, transfer.data, bytes, transfer.offset)
                              : ::pwrite(file_, transfer.data, bytes, transfer.offset);
    return moved < 0 ? -errno : moved;
  }
  void stop() {
    orders_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  int file_;
  Mailbox<Order> orders_;
  Mailbox<IoCompletion> completions_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<AsyncFileIo> make_thread_io(int file, int depth) { return std::make_unique<ThreadIo>(file, depth); }

}  // namespace memtune::disk
