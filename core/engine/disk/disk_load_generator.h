// Keeps a disk busy with the disk tier's traffic, checksums included, while something else runs. Measures the disk's
// rate under these conditions.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "core/engine/disk/scratch_block_store.h"

namespace memtune::disk {

class DiskLoadGenerator {
 public:
  enum class Kind { write, read };

  // Takes disk space for at most `bytes` and writes it once. Throws like ScratchBlockStore.
  DiskLoadGenerator(const ScratchBlockStoreSettings& settings, int64_t bytes,
                    AsyncDirectIoFileSystem& system = system_disk());
  ~DiskLoadGenerator();
  DiskLoadGenerator(const DiskLoadGenerator&) = delete;
  DiskLoadGenerator& operator=(const DiskLoadGenerator&) = delete;

  // Starts transfers on a thread of its own, piece by piece over all blocks, with the store's depth in flight.
  void start(Kind kind);
  int64_t moved_bytes() const { return moved_bytes_; }  // since start()
  // Returns 1e9 bytes per second since start(). Throws the first failure of a transfer.
  double stop();

 private:
  void move(Kind kind);
  RequestPtr request(Kind kind);

  const int64_t piece_;  // in bytes
  std::vector<ScratchFileBlockHandle> blocks_;
  const int64_t depth_;  // pieces in flight
  AlignedBuffer memory_;
  ScratchBlockStore store_;
  int64_t next_ = 0;
  std::atomic<int64_t> moved_bytes_{0};
  std::atomic<bool> stopped_{true};
  std::chrono::steady_clock::time_point start_;
  std::exception_ptr error_;
  std::thread mover_;  // last: it uses all members above
};

}  // namespace memtune::disk
