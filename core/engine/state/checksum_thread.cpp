#include "core/engine/state/checksum_thread.h"

namespace memtune::state {

ChecksumThread::ChecksumThread(StreamingTensorAndFileChecksums& checksums)
    : checksums_(checksums), thread_([this] { run(); }) {}

ChecksumThread::~ChecksumThread() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ChecksumThread::push(std::string_view bytes) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(bytes);
  }
  changed_.notify_all();
}

void ChecksumThread::await(int64_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return added_ >= bytes; });
}

void ChecksumThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (closing_) return;
    const std::string_view bytes = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    checksums_.add(bytes.data(), static_cast<int64_t>(bytes.size()));
    lock.lock();
    added_ += static_cast<int64_t>(bytes.size());
    changed_.notify_all();
  }
}

}  // namespace memtune::state
