// The time that a run of memtune may take, shared out among its trials: none begins that would not end in time, as far
// as earlier ones tell, and one that goes on beyond it is ended.
#pragma once

#include <algorithm>
#include <chrono>

namespace memtune::sweep {

class TimeBudget {
 public:
  using milliseconds = std::chrono::milliseconds;

  explicit TimeBudget(milliseconds limit) : limit_(limit) {}  // 0: none

  bool is_set() const { return limit_.count() > 0; }
  // Whether what took `expected` before has room.
  bool has_room(milliseconds expected) const { return !is_set() || left() > expected; }
  // Of a trial that may take `longest`.
  milliseconds limit_of(milliseconds longest) const { return is_set() ? std::min(longest, left()) : longest; }
  bool is_over() const { return !has_room(milliseconds(0)); }
  milliseconds limit() const { return limit_; }

 private:
  milliseconds left() const {
    const auto gone = std::chrono::steady_clock::now() - began_;
    return std::max(milliseconds(0), limit_ - std::chrono::duration_cast<milliseconds>(gone));
  }

  milliseconds limit_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace memtune::sweep
