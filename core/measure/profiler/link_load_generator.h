// Generates traffic on the link to host memory, as offload does during a step, to measure how much it slows compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/base/device/device.h"
#include "core/measure/profiler/device_activity_profiler.h"

namespace memtune::profiler {

class LinkLoadGenerator {
 public:
  // On an idle `link` the copies take `ms`: a third of that to the host, as in a forward, then back.
  LinkLoadGenerator(device::Device& device, const LinkBandwidth& link, double ms);

  // Enqueues the copies and returns. The device runs them in parallel with what follows.
  void start();
  double ms() const { return ms_; }  // duration of the enqueued copies, at least one each way

 private:
  void enqueue(int copies, device::CopyDirection direction, device::StreamKind stream);

  device::Device& device_;
  std::unique_ptr<device::HostBuffer> host_;
  at::Tensor memory_;
  int out_ = 1, in_ = 1;
  double ms_ = 0;
};

}  // namespace memtune::profiler
