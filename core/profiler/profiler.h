// What the device did and when, for some traced steps: kernels, copies, waits as trace events.
// CUDA: CUPTI activity records. CPU: what the emulated streams did, and compute as the time between waits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/trace/event.h"

namespace memtune::profiler {

class Profiler {
 public:
  virtual ~Profiler() = default;
  // Begins to record; the trace's clock starts here. Throws DeviceError when the profiler cannot be used.
  virtual void start() = 0;
  // Nanoseconds since start() on the clock of the events: host-side events (ops, regions) use it too.
  virtual int64_t now_ns() const = 0;
  // What is enqueued from now on was issued in that part of the step (from 1; 0: in none), and is of that value.
  // Nothing before start().
  virtual void tag_part(uint32_t part) = 0;
  virtual void tag_value(trace::ValueId value) = 0;
  // Waits for the device, ends recording and appends the events to `trace`. Lost records are counted there. Answers
  // with the part of each appended event; 0 where it is not known.
  virtual std::vector<uint32_t> finish(trace::Trace& trace) = 0;
};

// One at a time in a process.
std::unique_ptr<Profiler> make_profiler(device::Device& device);

// Copy rate of the idle link, in 1e9 bytes a second per direction: median of some 64 MiB page-locked copies.
struct Link {
  double out_gb_per_s = 0, in_gb_per_s = 0;
};
Link probe_link(device::Device& device);

// What each link carries while all of them copy, first out, then in, for a third of a second each way: a thread and 64
// MiB of page-locked and of device memory a device. Of one device: what it carries alone, measured alike. Throws what
// the first of them that failed threw, when all threads have ended.
std::vector<Link> probe_links_together(std::span<device::Device* const> devices);

}  // namespace memtune::profiler
