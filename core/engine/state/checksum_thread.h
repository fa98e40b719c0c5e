// Computes checksums on a thread of its own, in parallel with transfers of the same bytes. The thread that starts
// transfers is busy enough.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/engine/state/streaming_tensor_and_file_checksums.h"

namespace memtune::state {

class ChecksumThread {
 public:
  // Only this object uses `checksums` until all pushed bytes have been awaited. Throws std::system_error.
  explicit ChecksumThread(StreamingTensorAndFileChecksums& checksums);
  ~ChecksumThread();  // drops bytes that were not added yet
  ChecksumThread(const ChecksumThread&) = delete;
  ChecksumThread& operator=(const ChecksumThread&) = delete;

  // Appends the next bytes, which must stay valid until they are awaited. Any thread, one at a time.
  void push(std::string_view bytes);
  // Blocks until the first `bytes` bytes in all have been added. Any thread.
  void await(int64_t bytes);

 private:
  void run();

  StreamingTensorAndFileChecksums& checksums_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string_view> waiting_;
  int64_t added_ = 0;
  bool closing_ = false;
  std::thread thread_;  // last member: runs as soon as it exists
};

}  // namespace memtune::state
