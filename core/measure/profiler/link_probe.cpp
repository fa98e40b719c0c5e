#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/device/torch/torch_device.h"
#include "core/base/median.h"
#include "core/measure/profiler/device_activity_profiler.h"

namespace memtune::profiler {
namespace {

using device::CopyDirection;
using device::StreamKind;
using Clock = std::chrono::steady_clock;

struct Probe {
  int64_t bytes = 0;
  int repeats = 0;                              // copies in each direction, in turns
  std::chrono::milliseconds warm{}, counted{};  // durations while all devices copy
};
constexpr Probe kCudaProbe{int64_t{64} << 20, 40, std::chrono::milliseconds(50), std::chrono::milliseconds(300)};
// For memcpy: a few ms at most on a busy machine.
constexpr Probe kCpuProbe{int64_t{16} << 20, 4, std::chrono::milliseconds(5), std::chrono::milliseconds(30)};
constexpr double kFast = 0.25;  // quantile of the copies' times: copies to a GPU run at a third of its link for a while

const Probe& probe_of(const device::Device& device) { return device.emulated() ? kCpuProbe : kCudaProbe; }

StreamKind stream_of(CopyDirection direction) {
  return direction == CopyDirection::to_host ? StreamKind::out : StreamKind::in;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

at::DataPtr allocate(const device::Device& device, int64_t bytes) {
  return c10::GetAllocator(device::torch_device(device).type())->allocate(static_cast<size_t>(bytes));
}

double copy_seconds(device::Device& device, void* to, const void* from, int64_t bytes, CopyDirection direction) {
  const StreamKind stream = stream_of(direction);
  const auto start = Clock::now();
  device.copy(to, from, bytes, direction, stream);
  device.record(stream)->synchronize();
  return seconds_since(start);
}

// As an engine enqueues a copy out: behind compute, with an event that is waited for.
double copy_issue_ms(device::Device& device, void* to, const void* from) {
  constexpr int kCopies = 32;
  std::vector<double> seconds;
  for (int i = 0; i < kCopies; ++i) {
    const auto start = Clock::now();
    device.wait(StreamKind::out, device.record(StreamKind::compute));
    device.copy(to, from, 1, CopyDirection::to_host, StreamKind::out);
    device.wait(StreamKind::compute, device.record(StreamKind::out));
    seconds.push_back(seconds_since(start));
  }
  device.synchronize();
  return 1e3 * median(std::move(seconds));
}

double gb_per_s(int64_t bytes, std::vector<double> seconds) {
  const auto fast = seconds.begin() + static_cast<std::ptrdiff_t>(kFast * static_cast<double>(seconds.size()));
  std::ranges::nth_element(seconds, fast);
  return static_cast<double>(bytes) / *fast / 1e9;
}

// Returns the number of copies. The next is enqueued before the last has ended, so that the link is never idle.
int64_t copy_until(Clock::time_point stop, device::Device& device, void* to, const void* from,
                   CopyDirection direction) {
  const StreamKind stream = stream_of(direction);
  device::EventPtr last;
  int64_t copies = 0;
  do {
    device.copy(to, from, probe_of(device).bytes, direction, stream);
    const device::EventPtr next = device.record(stream);
    if (last) last->synchronize();
    last = next;
    ++copies;
  } while (Clock::now() < stop);
  last->synchronize();
  return copies;
}

double gb_per_s_together(std::barrier<>& all, device::Device& device, void* to, const void* from,
                         CopyDirection direction) {
  const Probe& probe = probe_of(device);
  copy_until(Clock::now() + probe.warm, device, to, from, direction);
  all.arrive_and_wait();
  const auto start = Clock::now();
  const int64_t copies = copy_until(start + probe.counted, device, to, from, direction);
  return static_cast<double>(copies * probe.bytes) / seconds_since(start) / 1e9;
}

LinkBandwidth probe_among(std::barrier<>& all, device::Device& device) {
  // Events and memory belong to the thread's current device.
  const c10::DeviceGuard current(device::torch_device(device));
  const auto host = device.allocate_host(probe_of(device).bytes);
  const auto memory = allocate(device, probe_of(device).bytes);
  device.synchronize();  // begins on an idle device
  LinkBandwidth link;
  link.out_gb_per_s = gb_per_s_together(all, device, host->data(), memory.get(), CopyDirection::to_host);
  link.in_gb_per_s = gb_per_s_together(all, device, memory.get(), host->data(), CopyDirection::to_device);
  return link;
}

}  // namespace

LinkBandwidth probe_link(device::Device& device) {
  const Probe& probe = probe_of(device);
  LinkBandwidth link;
  {
    const auto host = device.allocate_host(probe.bytes);
    const auto memory = allocate(device, probe.bytes);
    device.synchronize();  // begins on an idle device
    std::vector<double> out, in;
    for (int i = 0; i <= probe.repeats; ++i) {
      out.push_back(copy_seconds(device, host->data(), memory.get(), probe.bytes, CopyDirection::to_host));
      in.push_back(copy_seconds(device, memory.get(), host->data(), probe.bytes, CopyDirection::to_device));
      if (i == 0) out.clear(), in.clear();  // the first copies touch the memory and wake the link
    }
    link.out_gb_per_s = gb_per_s(probe.bytes, std::move(out));
    link.in_gb_per_s = gb_per_s(probe.bytes, std::move(in));
    link.copy_issue_ms = copy_issue_ms(device, host->data(), memory.get());
  }
  device.empty_cache();  // frees the memory of the probe
  return link;
}

std::vector<LinkBandwidth> probe_links_together(std::span<device::Device* const> devices) {
  std::vector<LinkBandwidth> links(devices.size());
  std::vector<std::exception_ptr> failures(devices.size());
  std::barrier<> all(static_cast<std::ptrdiff_t>(devices.size()));
  const auto fail = [&](size_t i) {  // called in a handler; the other threads do not wait for this one
    failures[i] = std::current_exception();
    all.arrive_and_drop();
  };
  const auto probe = [&](size_t i) {
    try {
      links[i] = probe_among(all, *devices[i]);
    } catch (...) {
      fail(i);
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(devices.size());
    for (size_t i = 0; i < devices.size(); ++i) {
      try {
        threads.emplace_back(probe, i);
      } catch (const std::system_error&) {
        fail(i);
      }
    }
  }
  for (device::Device* device : devices) device->empty_cache();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return links;
}

}  // namespace memtune::profiler
