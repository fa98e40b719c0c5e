// What is known of the order of streams without asking the driver: a stream works in order, so whoever stands behind
// one point of it stands behind all earlier ones. Thread: the one that trains.
#pragma once

#include <cstdint>
#include <vector>

namespace memtune::device {

class StreamOrder {
 public:
  using Id = const void*;  // of a stream
  struct Point {
    Id stream = nullptr;
    uint64_t number = 0;
    // Whether `other` is reached whenever this one is.
    bool implies(const Point& other) const { return stream == other.stream && number >= other.number; }
  };

  // The next point of a stream.
  Point record(Id stream) { return {stream, ++last_}; }

  // Whether what `stream` does next comes behind `point` anyway.
  bool stands_behind(Id stream, const Point& point) const {
    if (stream == point.stream) return true;
    for (const Wait& wait : waits_)
      if (wait.by == stream && wait.point.implies(point)) return true;
    return false;
  }
  void waited(Id stream, const Point& point) {
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
    Point point;  // the last of its stream
  };
  uint64_t last_ = 0;
  std::vector<Wait> waits_;  // one a pair of streams
};

}  // namespace memtune::device
