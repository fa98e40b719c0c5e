// Traffic on the link to host memory, as engines make it beside a step: to see what that takes of the compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/device/device.h"
#include "core/profiler/profiler.h"

namespace memtune::profiler {

class LinkLoad {
 public:
  // `link` carries it in `ms` when nothing else runs: a third of that time to the host, as in a forward, then back.
  LinkLoad(device::Device& device, const Link& link, double ms);

  // Enqueues it and returns; the device does it beside what comes next.
  void start();
  double ms() const { return ms_; }  // of the copies that start() enqueues; at least one each way

 private:
  void enqueue(int copies, device::Direction direction, device::Stream stream);

  device::Device& device_;
  std::unique_ptr<device::HostSlab> host_;
  at::Tensor memory_;
  int out_ = 1, in_ = 1;
  double ms_ = 0;
};

}  // namespace memtune::profiler
