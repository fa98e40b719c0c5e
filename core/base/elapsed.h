// Measures elapsed time.
#pragma once

#include <chrono>

namespace memtune {

inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Adds its own lifetime to `sum` when it is destroyed.
class Elapsed {
 public:
  explicit Elapsed(std::chrono::nanoseconds& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~Elapsed() { sum_ += std::chrono::steady_clock::now() - start_; }
  Elapsed(const Elapsed&) = delete;
  Elapsed& operator=(const Elapsed&) = delete;

 private:
  std::chrono::nanoseconds& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace memtune
