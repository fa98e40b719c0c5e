// Allocates parts of the scratch file. First fit keeps used parts near the start, and holes are reused before the file
// grows.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace memtune::disk {

// Offsets and sizes are multiples of the caller's own alignment. Thread: any.
class ExtentAllocator {
 public:
  // Returns the offset of `bytes`, which then belong to the caller; nothing if no hole is large enough.
  std::optional<int64_t> take(int64_t bytes);
  void deallocate(int64_t offset, int64_t bytes);
  // The file now has `end` bytes.
  void grow(int64_t end);
  // Bytes by which the file must grow before take(bytes) succeeds.
  int64_t missing(int64_t bytes) const;

  int64_t end() const;
  int64_t used_bytes() const;

 private:
  void insert(int64_t offset, int64_t bytes);

  mutable std::mutex mutex_;
  std::map<int64_t, int64_t> holes_;  // offset -> bytes; adjacent holes are merged
  int64_t end_ = 0, used_ = 0;
};

}  // namespace memtune::disk
