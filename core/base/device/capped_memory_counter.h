// Counts bytes held by tensors on the CPU device and refuses allocations above a cap. Only requested bytes are counted,
// so the numbers are exact. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace memtune::device {

class CappedMemoryCounter {
 public:
  // Returns false and changes nothing if `bytes` more would exceed the cap.
  bool take(int64_t bytes) {
    // Compare-and-swap instead of add-and-undo: a refused allocation must not make one on another thread fail.
    int64_t now = allocated_;
    do {
      const int64_t cap = cap_;
      if (cap > 0 && bytes > cap - now) return false;
    } while (!allocated_.compare_exchange_weak(now, now + bytes));
    raise_peak(now + bytes);
    return true;
  }
  void deallocate(int64_t bytes) { allocated_ -= bytes; }

  int64_t allocated() const { return allocated_; }  // bytes now
  int64_t peak() const { return peak_; }            // since the start or reset_peak()
  void reset_peak() { peak_ = allocated_.load(); }
  int64_t cap() const { return cap_; }
  void set_cap(int64_t bytes) { cap_ = bytes; }  // 0: no cap

 private:
  void raise_peak(int64_t bytes) {
    int64_t peak = peak_;
    while (bytes > peak && !peak_.compare_exchange_weak(peak, bytes)) {
    }
  }

  std::atomic<int64_t> allocated_{0}, peak_{0}, cap_{0};
};

}  // namespace memtune::device
