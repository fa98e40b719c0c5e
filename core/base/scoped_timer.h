// Measures elapsed time.
#pragma once

#include <chrono>

namespace memtune {

inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Adds its own lifetime to `sum` when it is destroyed.
class ScopedTimer {
 public:
  explicit ScopedTimer(std::chrono::nanoseconds& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~ScopedTimer() { sum_ += std::chrono::steady_clock::now() - start_; }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  std::chrono::nanoseconds& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace memtune
