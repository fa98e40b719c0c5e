// Memory of the device in a step, as if nothing that is offloaded between its uses were: parameters, gradients and
// optimizer states of a plan that offloads them. Without such a plan, memory as it is.
//
//   allocated   ██████░░██████      █ parameters and states on the device
//   moved             ██            a unit is in host memory
//   sum         ██████████████
//
// Thread: the training thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "core/base/device/device.h"

namespace memtune::step {

class AsIfNoStateOffloadMemoryMeter {
 public:
  explicit AsIfNoStateOffloadMemoryMeter(device::Device& device) : device_(device) {}

  // `moved_bytes`: by how much less is allocated now than if nothing were offloaded.
  void add_moved(std::function<int64_t()> moved_bytes) { moved_bytes_ = std::move(moved_bytes); }
  // Around each change of moved_bytes. Memory within does not count.
  void begin_change() { peak_ = peak(); }
  void end_change() { device_.reset_peak(); }

  int64_t allocated() const { return device_.memory().allocated + moved(); }
  int64_t peak() const { return std::max(peak_, device_.memory().peak_allocated + moved()); }  // since reset_peak()
  void reset_peak() {
    peak_ = 0;
    device_.reset_peak();
  }

 private:
  int64_t moved() const { return moved_bytes_ ? moved_bytes_() : 0; }

  device::Device& device_;
  std::function<int64_t()> moved_bytes_;
  int64_t peak_ = 0;  // before the last change
};

}  // namespace memtune::step
