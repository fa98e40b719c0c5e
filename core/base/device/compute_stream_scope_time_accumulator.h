// Measures compute-stream time between pairs of points. Off by default and then free; on, a pair costs two timed
// events. ms() requires an idle device.
#pragma once

#include <utility>
#include <vector>

#include "core/base/device/device.h"
#include "core/base/error.h"

namespace memtune::device {

class ComputeStreamScopeTimeAccumulator {
 public:
  explicit ComputeStreamScopeTimeAccumulator(Device& device) : device_(device) {}

  void enable() { on_ = true; }
  void clear() { laps_.clear(); }

  class Lap {
   public:
    explicit Lap(ComputeStreamScopeTimeAccumulator& watch) : watch_(watch) {
      if (watch_.on_) start_ = watch_.device_.record_timed(StreamKind::compute);
    }
    ~Lap() {
      if (start_) try {
          watch_.laps_.emplace_back(std::move(start_), watch_.device_.record_timed(StreamKind::compute));
        } catch (const DeviceError&) {  // the next device call reports it
        }
    }
    Lap(const Lap&) = delete;
    Lap& operator=(const Lap&) = delete;

   private:
    ComputeStreamScopeTimeAccumulator& watch_;
    EventPtr start_;
  };

  double ms() const {
    double sum = 0;
    for (const auto& [start, end] : laps_) sum += end->ms_since(*start);
    return sum;
  }

 private:
  Device& device_;
  bool on_ = false;
  std::vector<std::pair<EventPtr, EventPtr>> laps_;
};

}  // namespace memtune::device
