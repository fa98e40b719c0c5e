#include <c10/core/Allocator.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/device/torch/torch_device.h"
#include "core/profiler/profiler.h"

namespace memtune::profiler {
namespace {

using device::Direction;
using device::Stream;

struct Probe {
  int64_t bytes = 0;
  int repeats = 0;
};
constexpr Probe kCudaProbe{int64_t{64} << 20, 5};
constexpr Probe kCpuProbe{int64_t{16} << 20, 3};  // a memcpy; no more than a few ms on a busy machine

double copy_seconds(device::Device& device, void* to, const void* from, int64_t bytes, Direction direction) {
  const Stream stream = direction == Direction::to_host ? Stream::out : Stream::in;
  const auto start = std::chrono::steady_clock::now();
  device.copy(to, from, bytes, direction, stream);
  device.record(stream)->synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double gb_per_s(device::Device& device, const Probe& probe, void* to, const void* from, Direction direction) {
  copy_seconds(device, to, from, probe.bytes, direction);  // the first touches the memory and wakes the link
  std::vector<double> seconds;
  for (int i = 0; i < probe.repeats; ++i) {
    seconds.push_back(copy_seconds(device, to, from, probe.bytes, direction));
  }
  std::nth_element(seconds.begin(), seconds.begin() + probe.repeats / 2, seconds.end());
  return static_cast<double>(probe.bytes) / seconds[static_cast<size_t>(probe.repeats) / 2] / 1e9;
}

}  // namespace

Link probe_link(device::Device& device) {
  const Probe& probe = device.emulated() ? kCpuProbe : kCudaProbe;
  Link link;
  {
    const auto host = device.allocate_host(probe.bytes);
    const auto memory =
        c10::GetAllocator(device::torch_device(device).type())->allocate(static_cast<size_t>(probe.bytes));
    device.synchronize();  // idle
    link.out_gb_per_s = gb_per_s(device, probe, host->data(), memory.get(), Direction::to_host);
    link.in_gb_per_s = gb_per_s(device, probe, memory.get(), host->data(), Direction::to_device);
  }
  device.empty_cache();  // leave no trace in what the allocator holds
  return link;
}

}  // namespace memtune::profiler
