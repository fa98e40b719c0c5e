// Traffic on a disk as the disk tier makes it, checksums and all, for as long as something else runs beside it: what
// the disk can do then.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "core/disk/block_store.h"

namespace memtune::disk {

class DiskLoad {
 public:
  enum class Kind { write, read };

  // Takes room for `bytes` at most and writes there once. Throws as BlockStore does.
  DiskLoad(const StoreSettings& settings, int64_t bytes, DiskSystem& system = system_disk());
  ~DiskLoad();
  DiskLoad(const DiskLoad&) = delete;
  DiskLoad& operator=(const DiskLoad&) = delete;

  // Begins to move, on a thread of its own, piece by piece over all of it, as many in flight as the store has.
  void start(Kind kind);
  int64_t moved_bytes() const { return moved_bytes_; }  // since start()
  // 1e9 bytes a second since start(). Throws what went wrong on the way.
  double stop();

 private:
  void move(Kind kind);
  RequestPtr request(Kind kind);

  const int64_t piece_;  // bytes
  std::vector<Block> blocks_;
  const int64_t depth_;  // pieces in flight
  AlignedBytes memory_;
  BlockStore store_;
  int64_t next_ = 0;
  std::atomic<int64_t> moved_bytes_{0};
  std::atomic<bool> stopped_{true};
  std::chrono::steady_clock::time_point start_;
  std::exception_ptr error_;
  std::thread mover_;  // last: it uses all of the above
};

}  // namespace memtune::disk
