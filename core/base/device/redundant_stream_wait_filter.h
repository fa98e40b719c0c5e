// Tracks the known order of streams, to avoid driver calls. A stream runs in order, so waiting for one of its points
// orders a stream after all earlier points. Thread: the training thread.
#pragma once

#include <cstdint>
#include <vector>

namespace memtune::device {

class RedundantStreamWaitFilter {
 public:
  using Id = const void*;  // identifies a stream
  struct Point {
    Id stream = nullptr;
    uint64_t number = 0;
    // Whether `other` is always reached no later than this point.
    bool implies(const Point& other) const { return stream == other.stream && number >= other.number; }
  };

  // Returns the next point of a stream.
  Point record(Id stream) { return {stream, ++last_}; }

  // Whether later work of `stream` is ordered after `point` already.
  bool is_ordered_after(Id stream, const Point& point) const {
    if (stream == point.stream) return true;
    for (const Wait& wait : waits_)
      if (wait.by == stream && wait.point.implies(point)) return true;
    return false;
  }
  void note_wait(Id stream, const Point& point) {
    for (Wait& wait : waits_)
      if (wait.by == stream && wait.point.stream == point.stream) {
        if (point.implies(wait.point)) wait.point = point;
        return;
      }
    waits_.push_back({stream, point});
  }

 private:
  struct Wait {
    Id by;
    Point point;  // the latest of its stream
  };
  uint64_t last_ = 0;
  std::vector<Wait> waits_;  // one per pair of streams
};

}  // namespace memtune::device
