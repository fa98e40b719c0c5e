// Checksums on a thread of their own, beside the transfers of the same bytes: the thread that starts transfers has
// enough to do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/state/checksums.h"

namespace memtune::state {

class ChecksumThread {
 public:
  // `checksums` is this thread's until all that was pushed has been awaited. Throws std::system_error.
  explicit ChecksumThread(Checksums& checksums);
  ~ChecksumThread();  // what waits is given up
  ChecksumThread(const ChecksumThread&) = delete;
  ChecksumThread& operator=(const ChecksumThread&) = delete;

  // The next bytes. Any thread, one at a time.
  void push(std::string_view bytes);
  // Until so many bytes in all have been added. Any thread.
  void await(int64_t bytes);

 private:
  void run();

  Checksums& checksums_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string_view> waiting_;
  int64_t added_ = 0;
  bool closing_ = false;
  std::thread thread_;  // last: runs as soon as it exists
};

}  // namespace memtune::state
