// Records what the device did and when, for some traced steps: kernels, copies and waits as trace events. CUDA: CUPTI
// activity records. CPU: activities of the emulated streams, with the time between waits as compute.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/device/device.h"
#include "core/record/trace/trace_event.h"

namespace memtune::profiler {

class DeviceActivityProfiler {
 public:
  virtual ~DeviceActivityProfiler() = default;
  // Starts recording, and the trace's clock. Throws DeviceError if the profiler cannot be used.
  virtual void start() = 0;
  // Nanoseconds since start() on the clock of the events. Host events (ops, regions) use it too.
  virtual int64_t now_ns() const = 0;
  // Tag what is enqueued from now on with the part of the step that issues it (from 1; 0: none), and with a value. No
  // effect before start().
  virtual void tag_part(uint32_t part) = 0;
  virtual void tag_value(trace::ValueId value) = 0;
  // Waits for the device, ends recording and appends the events to `trace`, which also counts lost records. Returns the
  // part of each appended event; 0 if unknown.
  virtual std::vector<uint32_t> finish(trace::Trace& trace) = 0;
};

// Only one at a time in a process.
std::unique_ptr<DeviceActivityProfiler> make_profiler(device::Device& device);

// Copy rate of the idle link, in 1e9 bytes per second and direction: the median of several page-locked copies of 64
// MiB.
struct LinkBandwidth {
  double out_gb_per_s = 0, in_gb_per_s = 0;
  double copy_issue_ms = 0;  // host time of enqueueing a copy with the events around it; of probe_link()
};
LinkBandwidth probe_link(device::Device& device);

// Rates of the links while all devices copy, first out, then in, for a third of a second each. It uses a thread and 64
// MiB of page-locked and of device memory per device. With one device, it is the rate alone, measured the same way. If
// devices fail, the exception of the first one is thrown after all threads have ended.
std::vector<LinkBandwidth> probe_links_together(std::span<device::Device* const> devices);

}  // namespace memtune::profiler
