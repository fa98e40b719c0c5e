// Which parts of the scratch file are taken. First fit: what is used stays near the front of the file, and a hole is
// used again before the file grows.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace memtune::disk {

// Offsets and sizes are whatever multiple the caller keeps to. Thread: any.
class Extents {
 public:
  // The offset of `bytes` that are the caller's from now on; nothing when no hole is large enough.
  std::optional<int64_t> take(int64_t bytes);
  void give_back(int64_t offset, int64_t bytes);
  // The first `end` bytes of the file exist.
  void grow(int64_t end);
  // By how much the file has to grow for take(bytes) to succeed.
  int64_t missing(int64_t bytes) const;

  int64_t end() const;
  int64_t used_bytes() const;

 private:
  void insert(int64_t offset, int64_t bytes);

  mutable std::mutex mutex_;
  std::map<int64_t, int64_t> holes_;  // offset -> bytes; never two that touch
  int64_t end_ = 0, used_ = 0;
};

}  // namespace memtune::disk
