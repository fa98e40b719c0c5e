// Time limit of a run of memtune, shared by its trials. A trial starts only if it should end in time, judged by earlier
// ones. A trial that exceeds the limit is stopped.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace memtune::sweep {

class SweepWallClockBudget {
 public:
  using milliseconds = std::chrono::milliseconds;

  explicit SweepWallClockBudget(milliseconds limit) : limit_(limit) {}  // 0: none

  bool is_set() const { return limit_.count() > 0; }
  // True if there is time for a trial that took `expected` before.
  bool has_room(milliseconds expected) const { return !is_set() || left() > expected; }
  // For the trial that starts now; none: no limit.
  std::optional<milliseconds> for_trial() const { return is_set() ? std::optional(left()) : std::nullopt; }
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
