// Measures the PCIe bandwidth that ranks get if they offload at once. All devices must copy at the same time, and none
// may wait for one that failed.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/measure/profiler/device_activity_profiler.h"
#include "tests/support/cpu_emulated_device.h"
#include "tests/support/queue_device.h"

namespace memtune::link_probe_test {

using namespace memtune;
using device::CopyDirection;
using device::StreamKind;
using profiler::probe_links_together;
using std::chrono::milliseconds;

namespace {

constexpr double kBytes = 16 << 20;  // of one copy

std::atomic<int> copying;

// A device whose copies take a known time and move nothing.
struct SlowDevice final : tests::QueueDevice {
  SlowDevice() : QueueDevice(Compute::queued) { copying = 0; }
  std::unique_ptr<device::HostBuffer> allocate_host(int64_t bytes, bool pinned) override {
    std::this_thread::sleep_for(late);
    host_pinned = pinned;
    return QueueDevice::allocate_host(bytes, pinned);
  }
  void copy(void*, const void*, int64_t bytes, CopyDirection direction, StreamKind stream) override {
    if (direction == fails) throw DeviceError("the link is gone");
    if (bytes != int64_t(kBytes) || stream != (direction == CopyDirection::to_host ? StreamKind::out : StreamKind::in))
      odd = true;
    enqueue(stream, [this, direction] {
      most_copying = std::max(most_copying, ++copying);
      const bool slow = direction == CopyDirection::to_device && slow_in-- > 0;
      std::this_thread::sleep_for(slow ? milliseconds(100) : direction == CopyDirection::to_host ? out : in);
      --copying;
    });
  }
  milliseconds out{2}, in{2}, late{0};
  int slow_in = 0;  // copies to the device that take 100 ms
  std::optional<CopyDirection> fails;
  bool host_pinned = false, odd = false;
  int most_copying = 0;
};

}  // namespace

TEST_CASE("a link that is slow for some copies has the bandwidth of the fast ones") {
  SlowDevice device;
  device.slow_in = 3;
  const auto link = profiler::probe_link(device);
  CHECK(link.in_gb_per_s > kBytes / 50e6);
  CHECK(link.out_gb_per_s > kBytes / 50e6);
}

TEST_CASE("probing two emulated devices together measures both directions and leaves no memory behind") {
  device::CpuEmulatedDevice first(tests::no_tensors()), second(tests::no_tensors());
  device::Device* const devices[] = {&first, &second};
  const int64_t before = first.memory().allocated;
  const auto links = probe_links_together(devices);
  REQUIRE(links.size() == 2);
  for (const auto& link : links) {
    CHECK(link.out_gb_per_s > 0.05);
    CHECK(link.in_gb_per_s > 0.05);
  }
  CHECK(first.memory().allocated == before);
  CHECK(probe_links_together({}).empty());
}

TEST_CASE("the bandwidth of each device is its own bytes in its own time by direction") {
  SlowDevice quick, slow;
  slow.out = milliseconds(10);
  slow.in = milliseconds(20);
  device::Device* const devices[] = {&quick, &slow};
  const auto links = probe_links_together(devices);
  REQUIRE(links.size() == 2);
  const double rates[] = {links[0].out_gb_per_s, links[0].in_gb_per_s, links[1].out_gb_per_s, links[1].in_gb_per_s};
  const double ms[] = {2, 2, 10, 20};
  for (size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(rates[i] <= kBytes / (ms[i] * 1e6));  // no sleep is shorter than requested
    CHECK(rates[i] > kBytes / (ms[i] * 1e6) / 4);
  }
  for (SlowDevice* device : {&quick, &slow}) {
    CHECK(device->host_pinned);
    CHECK_FALSE(device->odd);
    CHECK(device->idle(StreamKind::out));
    CHECK(device->idle(StreamKind::in));
  }
}

TEST_CASE("bandwidth is measured while all devices copy even if one starts late") {
  SlowDevice first, late;
  late.late = milliseconds(250);
  device::Device* const devices[] = {&first, &late};
  probe_links_together(devices);
  CHECK(std::max(first.most_copying, late.most_copying) == 2);
}

TEST_CASE("a failing device is reported after the others have ended without waiting for it") {
  for (const CopyDirection direction : {CopyDirection::to_host, CopyDirection::to_device}) {
    SlowDevice failing, sound;
    failing.fails = direction;
    device::Device* const devices[] = {&sound, &failing};
    CHECK_THROWS_WITH_AS(probe_links_together(devices), "the link is gone", DeviceError);
    CHECK(sound.most_copying > 0);
    CHECK(copying == 0);
  }
}

}  // namespace memtune::link_probe_test
